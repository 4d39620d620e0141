// Runs under mpirun: every rank runs the same tests in the same order. The device is the CPU.
#include "worker/cuda/self_test.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <mpi.h>
#include <torch/library.h>

#include <limits>

#include "base/errors.h"
#include "base/process/environment.h"
#include "tests/comm/rendezvous_communicator.h"
#include "tests/cuda/lonely_host.h"
#include "worker/comm/mpi_communicator.h"
#include "worker/kernels/l1_cost.h"
#include "worker/kernels/removal_steps.h"
#include "worker/kernels/sinkhorn.h"

namespace dotresize {
namespace {

using ::testing::HasSubstr;

constexpr std::chrono::seconds kTimeout(20);

SelfTestSubject subject(at::ScalarType compute_dtype = at::kFloat) {
  return self_test_subject({}, compute_dtype);
}

/// Returns the error that all ranks get; empty if the test passes.
std::string refusal(const SelfTestSubject& tried, Communicator& comm) {
  try {
    self_test(tried, comm);
    return "";
  } catch (const InputError& error) {
    EXPECT_EQ(error.field(), "resources.device");
    return error.description();
  }
}

std::string refusal_alone(const SelfTestSubject& tried) {
  SelfCommunicator alone;
  return refusal(tried, alone);
}

std::string failed(int rank) {
  return "rank " + std::to_string(rank) + " on " + host_name() +
         ", CPU, has failed the self-test: ";
}

TEST(SelfTest, TheCpuPassesInEachDtype) {
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16, at::kHalf}) {
    EXPECT_EQ(refusal_alone(subject(dtype)), "") << dtype;
  }
}

TEST(SelfTest, KernelsThatComputeWrongAreNamed) {
  SelfTestSubject broken = subject();
  broken.kernels.add_l1_cost = [](const at::Tensor& x, at::Tensor& cost) {
    add_l1_cost(x, cost);
    cost[140][149] += 0.01;  // an entry of a tile at the edge
  };
  EXPECT_THAT(refusal_alone(broken), HasSubstr(failed(0) + "l1 cost: differs from"));
  broken = subject();
  broken.kernels.mirror_upper_triangle = [](at::Tensor&) {};
  EXPECT_THAT(refusal_alone(broken), HasSubstr(failed(0) + "mirrored triangle: differs from"));
  broken = subject();
  broken.kernels.sinkhorn = [](const at::Tensor& cost, const SinkhornOptions& options) {
    SinkhornResult result = sinkhorn(cost, options);
    result.plan[7][7].fill_(std::nan(""));
    return result;
  };
  EXPECT_THAT(refusal_alone(broken), HasSubstr(failed(0) + "Sinkhorn plan: differs from"));
  broken.kernels.sinkhorn = [](const at::Tensor& cost, const SinkhornOptions& options) {
    return sinkhorn(cost, {options.lambda, options.tolerance, 3});
  };
  EXPECT_THAT(refusal_alone(broken), HasSubstr("does not converge within 3 iterations"));
  broken = subject();
  broken.kernels.removal_steps = [](RemovalState& state, int64_t count) {
    state.squares[149] *= 0.5;  // a candidate of the last block of threads
    return removal_steps(state, count);
  };
  EXPECT_THAT(refusal_alone(broken), HasSubstr(failed(0) + "removal of features: differs from"));
}

TEST(SelfTest, TheFasterSvdIsChosenUnlessBothAreNearlyAsFast) {
  constexpr double kNever = std::numeric_limits<double>::infinity();
  EXPECT_EQ(faster_svd({.gesvd = 1.0, .gesvdj = 0.1}), SvdDriver::kGesvdj);
  EXPECT_EQ(faster_svd({.gesvd = 1.0, .gesvdj = 0.9}), SvdDriver::kGesvd);
  EXPECT_EQ(faster_svd({.gesvd = 1.0, .gesvdj = kNever}), SvdDriver::kGesvd);
  SelfTestResult result{.seconds = 1.4, .svd = {}, .link_speeds = {}};
  EXPECT_EQ(self_test_text(result), "self-test: 1 rank in 1.4 s");
  result.svd = {.gesvd = 0.31, .gesvdj = kNever};
  EXPECT_EQ(self_test_text(result), "self-test: 1 rank in 1.4 s; svd: gesvd 0.31 s, gesvdj inf s");
}

TEST(SelfTest, WhatAKernelThrowsIsTold) {
  SelfTestSubject broken = subject();
  broken.kernels.add_l1_cost = [](const at::Tensor&, at::Tensor&) {
    TORCH_CHECK(false, "no kernel image is available");
  };
  EXPECT_EQ(refusal_alone(broken), failed(0) + "l1 cost: no kernel image is available");
}

/// Makes one entry wrong, in bfloat16 only.
at::Tensor wrong_product(const at::Tensor& a, const at::Tensor& b) {
  at::Tensor product = at::bmm(a.unsqueeze(0), b.unsqueeze(0)).squeeze(0);
  if (a.scalar_type() == at::kBFloat16) product[100][100] += 0.5;
  return product;
}

/// Returns correct values, and vectors one of which is not quite a unit vector.
std::tuple<at::Tensor, at::Tensor> wrong_eigh(const at::Tensor& matrix, c10::string_view, bool) {
  auto [u, values, v] = at::linalg_svd(matrix);
  u = u.flip(1).contiguous();
  u.select(1, 9).mul_(1.001);
  return {values.flip(0), u};
}

/// Decomposes through the eigenvalues of AᵀA, which loses half of the digits.
std::tuple<at::Tensor, at::Tensor, at::Tensor> inexact_svd(const at::Tensor& matrix, bool, bool,
                                                           std::optional<c10::string_view>) {
  const auto [squares, V] = at::linalg_eigh(at::mm(matrix.t(), matrix));
  const at::Tensor values = squares.clamp_min(0.0).sqrt();
  return {at::mm(matrix, V) / values, values, V.t()};
}

TEST(SelfTest, OperationsOfLibtorchThatComputeWrongAreNamed) {
  {
    torch::Library library(torch::Library::IMPL, "aten", c10::DispatchKey::CPU, __FILE__, __LINE__);
    library.impl("_linalg_svd", TORCH_FN(inexact_svd));
    EXPECT_THAT(refusal_alone(subject()), HasSubstr(failed(0) + "svd in Double: differs from"));
  }
  {
    torch::Library library(torch::Library::IMPL, "aten", c10::DispatchKey::CPU, __FILE__, __LINE__);
    library.impl("mm", TORCH_FN(wrong_product));
    EXPECT_EQ(refusal_alone(subject(at::kFloat)), "");
    EXPECT_THAT(refusal_alone(subject(at::kBFloat16)),
                HasSubstr(failed(0) + "product in BFloat16: differs from"));
  }
  {
    torch::Library library(torch::Library::IMPL, "aten", c10::DispatchKey::CPU, __FILE__, __LINE__);
    library.impl("_linalg_eigh", TORCH_FN(wrong_eigh));
    EXPECT_THAT(refusal_alone(subject()), HasSubstr(failed(0) + "eigh in Double: differs from"));
  }
  EXPECT_EQ(refusal_alone(subject()), "");
}

/// Forwards everything to `inner`, but changes one value of each long message between two ranks.
class FlippingCommunicator final : public Communicator {
 public:
  FlippingCommunicator(Communicator& inner, int from, int to)
      : Communicator(inner.rank(), inner.size()), inner_(inner), from_(from), to_(to) {}

  void broadcast(at::Tensor& tensor, int root) override { inner_.broadcast(tensor, root); }
  void reduce_sum(at::Tensor& tensor, int root) override { inner_.reduce_sum(tensor, root); }
  void all_reduce_sum(at::Tensor& tensor) override { inner_.all_reduce_sum(tensor); }
  void barrier() override { inner_.barrier(); }
  std::unique_ptr<Transfer> receive(at::Tensor& tensor, int from) override {
    return inner_.receive(tensor, from);
  }
  std::unique_ptr<Transfer> send(const at::Tensor& tensor, int to) override {
    if (rank() != from_ || to != to_ || tensor.numel() < 100'000) return inner_.send(tensor, to);
    changed_ = tensor.clone();  // lives until the next message, when this one has arrived
    changed_[99'999] += 1;
    return inner_.send(changed_, to);
  }

 private:
  Communicator& inner_;
  int from_;
  int to_;
  at::Tensor changed_;
};

struct SelfTestOfRanks : ::testing::Test {
  testing::RendezvousCommunicator blocking{MPI_COMM_WORLD, wait_at_most(kTimeout)};
  MpiCommunicator notes{MPI_COMM_WORLD, wait_at_most(kTimeout)};
  AnnouncedCommunicator comm{notes, blocking};  ///< the communicator that ranks on GPUs use
};

TEST_F(SelfTestOfRanks, AllLinksAreTimed) {
  for (Communicator* one :
       {static_cast<Communicator*>(&comm), static_cast<Communicator*>(&notes)}) {
    const SelfTestResult result = self_test(subject(), *one);
    EXPECT_THAT(result.link_speeds, ::testing::SizeIs(comm.size() - 1));
    EXPECT_THAT(result.link_speeds, ::testing::Each(::testing::Gt(0)));
    EXPECT_THAT(self_test_text(result),
                ::testing::MatchesRegex("self-test: . ranks in .* s; links: .*B/s at least"));
  }
}

TEST_F(SelfTestOfRanks, AByteThatArrivesChangedIsToldWithBothRanks) {
  for (int lower = 0; lower + 1 < comm.size(); ++lower) {
    for (const auto& [from, to] : {std::pair(lower, lower + 1), std::pair(lower + 1, lower)}) {
      FlippingCommunicator flipping(comm, from, to);
      EXPECT_EQ(refusal(subject(), flipping), failed(to) + "ping: of 4194304 bytes from rank " +
                                                  std::to_string(from) + " 1 arrive changed");
    }
  }
}

TEST_F(SelfTestOfRanks, AllRanksHearOfADeviceThatComputesWrong) {
  SelfTestSubject mine = subject();
  const int last = comm.size() - 1;
  if (comm.rank() == last) mine.kernels.mirror_upper_triangle = [](at::Tensor&) {};
  EXPECT_THAT(refusal(mine, comm), HasSubstr(failed(last) + "mirrored triangle"));
}

/// Rank 0 of two; long messages cannot be sent.
class Deaf final : public LonelyHost {
 public:
  std::unique_ptr<Transfer> send(const at::Tensor& tensor, int to) override {
    if (tensor.numel() < 4096) return std::make_unique<Done>();
    throw CommunicationError("send to rank " + std::to_string(to) + " failed");
  }
  std::unique_ptr<Transfer> receive(at::Tensor&, int) override { return std::make_unique<Done>(); }

 private:
  struct Done final : Transfer {
    void wait() override {}
  };
};

TEST(SelfTest, ATransferThatFailsSaysThatItIsOfTheSelfTest) {
  Deaf deaf;
  try {
    self_test(subject(), deaf);
    FAIL() << "nothing was sent";
  } catch (const CommunicationError& error) {
    EXPECT_STREQ(error.what(), "self-test: ping of ranks 0 and 1: send to rank 1 failed");
  }
}

}  // namespace
}  // namespace dotresize

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  MPI_Init(&argc, &argv);
  const int failed = RUN_ALL_TESTS();
  MPI_Finalize();
  return failed;
}
