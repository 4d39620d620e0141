// Runs under mpirun with a GPU for each rank. Every rank runs the same tests in the same order, or
// skips them all.
#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <mpi.h>

#include <chrono>

#include "tests/cuda/gpu.h"
#include "worker/comm/mpi_communicator.h"
#include "worker/cuda/choose_device.h"

namespace dotresize {
namespace {

using ::testing::HasSubstr;

constexpr std::chrono::seconds kTimeout(30);

/// The rank's device; the CPU if some rank has no GPU of its own.
at::Device device = at::kCPU;
CudaModule* cuda = nullptr;

class NcclCommunicator : public testing::Test {
 protected:
  NcclCommunicator() : host_(MPI_COMM_WORLD, wait_at_most(kTimeout)) {}
  void SetUp() override {
    if (cuda == nullptr)
      GTEST_SKIP() << "not every rank has a GPU of its own: " << ask_driver().fault;
    comm_ = cuda->make_communicator(host_, wait_at_most(kTimeout));
  }
  at::Tensor full(at::IntArrayRef shape, int64_t value, at::ScalarType dtype) const {
    return at::full(shape, value, at::dtype(dtype).device(device));
  }

  MpiCommunicator host_;
  std::unique_ptr<Communicator> comm_;
};

TEST_F(NcclCommunicator, BroadcastsAnyDtypeFromAnyRoot) {
  for (int root = 0; root < comm_->size(); ++root) {
    for (const at::ScalarType dtype : {at::kFloat, at::kDouble, at::kBFloat16, at::kLong}) {
      at::Tensor tensor = full({5, 7}, comm_->rank() == root ? 3 : 0, dtype);
      comm_->broadcast(tensor, root);
      EXPECT_TRUE(at::equal(tensor, full({5, 7}, 3, dtype)));
    }
  }
}

TEST_F(NcclCommunicator, ReducesToTheRootAndToAll) {
  const int root = comm_->size() - 1;
  const int weight = comm_->size() * (comm_->size() + 1) / 2;
  const at::Tensor ones = full({1000}, 1, at::kDouble);
  at::Tensor tensor = ones * (comm_->rank() + 1);
  comm_->reduce_sum(tensor, root);
  EXPECT_TRUE(at::equal(tensor, ones * (comm_->rank() == root ? weight : comm_->rank() + 1)));
  at::Tensor other = ones * (comm_->rank() + 1);
  comm_->all_reduce_sum(other);
  EXPECT_TRUE(at::equal(other, ones * weight));
}

/// The receive comes first, like in the pipeline.
TEST_F(NcclCommunicator, PassesTensorsDownALine) {
  at::Tensor incoming = full({300, 400}, -1, at::kFloat);
  const int rank = comm_->rank();
  std::unique_ptr<Transfer> receiving = rank > 0 ? comm_->receive(incoming, rank - 1) : nullptr;
  if (rank + 1 < comm_->size()) {
    comm_->send(full({300, 400}, rank, at::kFloat), rank + 1)->wait();
  }
  if (receiving) receiving->wait();
  EXPECT_TRUE(at::equal(incoming, full({300, 400}, rank - 1, at::kFloat)));
}

TEST_F(NcclCommunicator, MovesTensorsOfTheCpuAndNothing) {
  at::Tensor on_cpu = at::full({1}, comm_->rank() + 1, at::kLong);
  comm_->all_reduce_sum(on_cpu);
  EXPECT_EQ(on_cpu.item<int64_t>(), comm_->size() * (comm_->size() + 1) / 2);
  at::Tensor empty = full({0}, 0, at::kFloat);
  comm_->broadcast(empty, 0);
}

TEST_F(NcclCommunicator, RefusesToAddUpWhatItCannot) {
  at::Tensor tensor = full({1}, 0, at::kBFloat16);
  EXPECT_THROW(comm_->all_reduce_sum(tensor), std::logic_error);
}

TEST_F(NcclCommunicator, SilentPeerEndsInAnErrorThatNamesTheOperation) {
  if (comm_->size() < 2) GTEST_SKIP() << "needs two ranks";
  auto impatient = cuda->make_communicator(host_, wait_at_most(std::chrono::seconds(2)));
  if (impatient->rank() == 0) {
    at::Tensor never = full({1}, 0, at::kFloat);
    const auto start = std::chrono::steady_clock::now();
    try {
      impatient->receive(never, 1)->wait();
      ADD_FAILURE() << "no rank has sent";
    } catch (const CommunicationError& error) {
      EXPECT_THAT(error.what(), HasSubstr("receive from rank 1 did not complete within 2 s"));
    }
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(10));
    EXPECT_THROW(impatient->broadcast(never, 0), CommunicationError);
  }
  host_.barrier();
}

}  // namespace
}  // namespace dotresize

int main(int argc, char** argv) {
  using namespace dotresize;
  ::testing::InitGoogleTest(&argc, argv);
  MPI_Init(&argc, &argv);
  int failed = 1;
  {
    MpiCommunicator comm(MPI_COMM_WORLD, wait_at_most(kTimeout));
    const ChosenDevice chosen = choose_device(std::nullopt, comm, comm.rank());
    device = chosen.device;
    cuda = chosen.cuda;
    failed = RUN_ALL_TESTS();
    if (failed == 0 && cuda == nullptr) failed = kAllSkipped;
  }
  MPI_Finalize();
  return failed;
}
