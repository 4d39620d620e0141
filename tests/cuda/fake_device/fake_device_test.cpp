// Runs the worker's own code on the fake GPU: results equal the CPU's, and nothing depends on which
// stream is faster.
#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <tuple>
#include <utility>

#include "tests/temporary_directory.h"
#include "worker/calibration/storage/background_sink.h"
#include "worker/calibration/storage/journal.h"
#include "worker/kernels/svd.h"
#include "worker/transformer/stage/stream_guard.h"

namespace dotresize {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

const at::Device kGpu(at::kCUDA, 0);

/// Returns the error of the operations on the GPU; empty if there is no race.
template <class Run>
std::string race_in(const Run& run) {
  try {
    run();
    at::zeros({1}, kGpu);  // the next operation finds a block that was freed too early
  } catch (const c10::Error& error) {
    return error.what_without_backtrace();
  }
  return "";
}

at::Tensor numbers(int64_t rows, int64_t columns) {
  return at::arange(rows * columns, at::kDouble).view({rows, columns}).sin();
}

TEST(FakeDevice, ComputesWhatTheCpuDoes) {
  const at::Tensor x = numbers(6, 4);
  const at::Tensor on_gpu = x.to(kGpu);
  EXPECT_TRUE(on_gpu.is_cuda());
  const auto steps = [](const at::Tensor& a) {
    at::Tensor product = at::mm(a.t(), a).add_(a.slice(0, 0, 4)).to(at::kFloat);
    product.select(1, 2).mul_(3);
    return at::cat({product.softmax(1), std::get<0>(product.sort(0))})
        .index_select(0, at::arange(2, 6, product.options().dtype(at::kLong)));
  };
  EXPECT_TRUE(steps(on_gpu).cpu().equal(steps(x)));
  EXPECT_TRUE(std::get<1>(at::linalg_eigh(at::mm(on_gpu.t(), on_gpu))).is_cuda());
}

TEST(FakeDevice, RefusesSingularValuesByLibtorchsDefault) {
  const at::Tensor x = numbers(6, 4);
  for (const SvdDriver driver : {SvdDriver::kGesvd, SvdDriver::kGesvdj}) {
    const auto [P, values, Wt] = svd(x.to(kGpu), /*full_matrices=*/true, driver);
    EXPECT_TRUE(values.cpu().equal(std::get<1>(at::linalg_svd(x))));
    EXPECT_EQ(P.size(1), 6);
  }
  EXPECT_THAT(race_in([&] { at::linalg_svd(x.to(kGpu)); }), HasSubstr("no driver was chosen"));
}

TEST(FakeDevice, RefusesTensorsOnDifferentDevices) {
  const at::Tensor x = numbers(2, 2);
  EXPECT_THAT(race_in([&] { at::mm(x.to(kGpu), x); }), HasSubstr("a tensor is on the CPU"));
  EXPECT_THAT(race_in([&] { at::mm(x.to(kGpu), x.to(at::Device(at::kCUDA, 1))); }),
              HasSubstr("tensors on cuda:0 and cuda:1"));
}

TEST(FakeDevice, FindsAReadThatDoesNotWaitForTheWrite) {
  const at::Tensor x = numbers(8, 4).to(kGpu);
  const KeptStream kept(kGpu);
  const RecordedEvent before(kGpu);
  const at::Tensor converted = x.to(at::kBFloat16);
  const auto read = [&](const RecordedEvent& event) {
    const StreamGuard stream(kept, event);
    converted.cpu();
  };
  EXPECT_THAT(
      race_in([&] { read(before); }),
      AllOf(HasSubstr("aten::copy_ to the CPU on stream"), HasSubstr("reads [8, 4] BFloat16"),
            HasSubstr("aten::copy_ of Double to BFloat16 on the default stream of cuda:0")));
  EXPECT_EQ(race_in([&] { read(RecordedEvent(kGpu)); }), "");
}

TEST(FakeDevice, FindsAWriteThatDoesNotWaitForTheRead) {
  at::Tensor x = numbers(3, 3).to(kGpu);
  const KeptStream kept(kGpu);
  at::Tensor sum;
  {
    const StreamGuard stream(kept, RecordedEvent(kGpu));
    sum = x.sum();
  }
  EXPECT_THAT(race_in([&] { x.zero_(); }),
              AllOf(HasSubstr("aten::zero_ on the default stream"),
                    HasSubstr("writes [3, 3] Double"), HasSubstr("aten::sum")));
  StreamGuard(kept).synchronize();
  EXPECT_EQ(race_in([&] { x.zero_(); }), "");
}

TEST(FakeDevice, FindsMemoryThatIsFreedWhileAnotherStreamUsesIt) {
  const KeptStream kept(kGpu);
  const auto use = [&](bool record) {
    at::Tensor x = numbers(3, 5).to(kGpu);
    const RecordedEvent made(kGpu);
    const StreamGuard stream(kept, made);
    const at::Tensor twice = x + x;
    if (record) x.record_stream(*kept.stream);
  };
  EXPECT_THAT(race_in([&] { use(false); }),
              AllOf(HasSubstr("[3, 5] Double is freed"), HasSubstr("aten::add")));
  EXPECT_EQ(race_in([&] { use(true); }), "");
}

/// Three streams convert, write and read the map.
TEST(JournalOnTheFakeDevice, KeepsTheMapThatWasSolved) {
  const TemporaryDirectory dir;
  Journal journal(dir.path());
  const at::Tensor M = numbers(8, 4);
  EXPECT_EQ(race_in([&] {
              JunctionRecorder recorder(journal, at::kBFloat16, kGpu, /*waits=*/false);
              for (int64_t junction = 0; junction < 3; ++junction) {
                const at::Tensor map = (M + junction).to(kGpu);
                SolvedJunction solved;
                solved.solution.map = JunctionMap(map);
                solved.solution.support = at::arange(4).to(kGpu);
                solved.describe = [map](MapDiagnostics& found) {
                  found.retained_energy = map.sum().item<double>();
                };
                recorder.record(junction, std::move(solved));
              }
              recorder.finish();
            }),
            "");
  EXPECT_TRUE(journal.map(2).M.equal((M + 2).to(at::kBFloat16)));
  EXPECT_EQ(journal.diagnostics(entries::kJunction(1)).retained_energy,
            (M + 1).sum().item<double>());
}

}  // namespace
}  // namespace dotresize
