// Tests of device selection with this machine's CUDA module, with or without a GPU.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <string>

#include "base/errors.h"
#include "tests/cuda/gpu.h"
#include "tests/cuda/lonely_host.h"
#include "worker/cuda/choose_device.h"
#include "worker/kernels/l1_cost.h"

namespace dotresize {
namespace {

using ::testing::HasSubstr;

TEST(CudaModule, LoadsWithOrWithoutAGpu) {
  at::set_num_threads(1);  // the worker also uses the CPU before it opens the module
  EXPECT_EQ(at::ones({3}).sum().item<float>(), 3.0f);
  CudaModule& module = open_cuda_module();
  EXPECT_EQ(&open_cuda_module(), &module);
  EXPECT_EQ(module.device_count() > 0, ask_driver().fault.empty());
  EXPECT_EQ(cuda_kernels().add_l1_cost, module.kernels().add_l1_cost);
}

/// libtorch finds its CUDA half although it was loaded after the start.
TEST(CudaModule, TellsLibtorch) {
  open_cuda_module();
  EXPECT_EQ(at::globalContext().hasCUDA(), ask_driver().fault.empty());
  EXPECT_TRUE(at::globalContext().hasCuSOLVER());
}

GpuInfo gpu(int capability, int multiprocessors, double clock_hz) {
  return {.name = "",
          .uuid = "",
          .capability = capability,
          .multiprocessors = multiprocessors,
          .clock_hz = clock_hz};
}

/// Half of the float32 operations per second that NVIDIA states for V100 and A100, a quarter of the
/// H100's.
TEST(GpuLimits, AreOneInstructionAPairIn64LanesOfAMultiprocessor) {
  EXPECT_NEAR(l1_cost_limit(gpu(70, 80, 1.53e9)), 7.8e12, 0.05e12);
  EXPECT_NEAR(l1_cost_limit(gpu(80, 108, 1.41e9)), 9.7e12, 0.05e12);
  EXPECT_NEAR(l1_cost_limit(gpu(90, 132, 1.98e9)), 16.7e12, 0.05e12);
}

constexpr char kFlags[] =
    "NVCC architecture flags: "
    "-gencode;arch=compute_70,code=sm_70;-gencode;arch=compute_80,code=sm_80;"
    "-gencode;arch=compute_90a,code=sm_90a;-gencode;arch=compute_120,code=sm_120";

TEST(GpuSupport, BinariesServeTheirMajorVersionFromTheirMinorOneOn) {
  const GpuCode code = gpu_code(kFlags);
  EXPECT_THAT(code.binaries, testing::ElementsAre(70, 80, 120));
  for (const int capability : {70, 75, 80, 86, 89, 120, 121}) {
    EXPECT_EQ(why_no_code_for(capability, code), "") << capability;
  }
  EXPECT_EQ(
      why_no_code_for(60, code),
      "libtorch has no kernels for sm_60, only for sm_70, sm_80, sm_120: install a torch that "
      "has them");
  EXPECT_NE(why_no_code_for(90, code), "");  // sm_90a serves no other architecture
  EXPECT_NE(why_no_code_for(100, code), "");
  EXPECT_NE(why_no_code_for(75, gpu_code("code=sm_80")), "");
}

TEST(GpuSupport, PortableCodeServesAllLaterOnes) {
  const GpuCode code = gpu_code("code=sm_80;-gencode;arch=compute_90,code=compute_90");
  EXPECT_EQ(why_no_code_for(120, code), "");
  EXPECT_NE(why_no_code_for(75, code), "");
}

/// DOTRESIZE_GPUS lists the supported architectures. The P100 is older than all that libtorch
/// knows.
TEST(GpuSupport, OurLibtorchServesWhatTheBuildIsForAndNotTheP100) {
  const GpuCode code = gpu_code(open_cuda_module().libtorch_flags());
  for (const int gpu : std::vector<int>{DOTRESIZE_GPUS}) EXPECT_EQ(why_no_code_for(gpu, code), "");
  EXPECT_THAT(why_no_code_for(60, code), HasSubstr("no kernels for sm_60"));
}

struct CudaModuleOnGpu : OnGpu {};

TEST_F(CudaModuleOnGpu, RemembersItsPeakMemory) {
  const CudaModule& cuda = open_cuda_module();
  const int64_t before = cuda.memory().peak;
  EXPECT_GT(before, 0);  // the context takes some
  constexpr int64_t kBytes = int64_t{256} << 20;
  at::empty({kBytes}, at::dtype(at::kByte).device(at::kCUDA));
  EXPECT_GE(cuda.memory().peak, kBytes);
  EXPECT_LE(cuda.memory().peak, before + 2 * kBytes);
  EXPECT_GT(cuda.memory().free, 0);
}

/// One GPU is enough for this test.
TEST_F(CudaModuleOnGpu, NcclPeerThatNeverComesEndsInAnErrorInTime) {
  LonelyHost host;
  const auto start = std::chrono::steady_clock::now();
  try {
    open_cuda_module().make_communicator(host, wait_at_most(std::chrono::seconds(2)));
    FAIL() << "there is no second rank";
  } catch (const CommunicationError& error) {
    EXPECT_THAT(error.what(), HasSubstr("start of NCCL did not complete within 2 s"));
  }
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(20));
}

TEST(ChooseDevice, CpuIsTheCpu) {
  SelfCommunicator self;
  EXPECT_EQ(choose_device(DeviceKind::kCpu, self, 0).device, at::Device(at::kCPU));
}

TEST(ChooseDevice, AutoTakesAGpuWhereThereIsOne) {
  SelfCommunicator self;
  const ChosenDevice chosen = choose_device(std::nullopt, self, 0);
  EXPECT_EQ(chosen.device.is_cuda(), ask_driver().fault.empty());
  EXPECT_EQ(chosen.cuda != nullptr, chosen.device.is_cuda());
  EXPECT_EQ(chosen.name.empty(), chosen.device.is_cpu());
}

/// Rank 0 of two; rank 1 has found a GPU.
class HostWithAGpu final : public LonelyHost {
 public:
  /// Receives the length of rank 1's finding, then the finding.
  std::unique_ptr<Transfer> receive(at::Tensor& tensor, int) override {
    if (tensor.scalar_type() == at::kLong) {
      tensor.fill_(static_cast<int64_t>(finding_.size()));
    } else {
      std::memcpy(tensor.data_ptr(), finding_.data(), finding_.size());
    }
    struct Done final : Transfer {
      void wait() override {}
    };
    return std::make_unique<Done>();
  }

 private:
  std::string finding_ = R"({"reason": "", "uuid": "00", "capability": 90})";
};

TEST(ChooseDevice, AutoSaysWhyAGpuIsLeftAlone) {
  if (ask_driver().fault.empty()) GTEST_SKIP() << "there is a GPU";
  HostWithAGpu one_of_two;
  EXPECT_EQ(choose_device(std::nullopt, one_of_two, 0).why_not_cuda,
            "all ranks compute on the CPU: rank 0: " + ask_driver().fault);
  SelfCommunicator self;
  EXPECT_EQ(choose_device(std::nullopt, self, 0).why_not_cuda, "");
}

TEST(ChooseDevice, CudaWithoutAGpuIsRefusedByName) {
  if (ask_driver().fault.empty()) GTEST_SKIP() << "there is a GPU";
  SelfCommunicator self;
  try {
    choose_device(DeviceKind::kCuda, self, 0);
    FAIL() << "there is no GPU";
  } catch (const InputError& error) {
    EXPECT_THAT(error.what(),
                HasSubstr("resources.device: cuda cannot be used: rank 0: " + ask_driver().fault));
  }
}

}  // namespace
}  // namespace dotresize
