// Run under mpirun: every rank runs the same tests in the same order.
#include "worker/comm/mpi_communicator.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <optional>
#include <string>
#include <thread>

#include "base/process/environment.h"
#include "tests/temporary_directory.h"
#include "worker/comm/heartbeats.h"

namespace dotresize {
namespace {

using ::testing::HasSubstr;

constexpr std::chrono::seconds kTimeout(20);

TEST(MpiCommunicator, BroadcastsAnyDtypeFromAnyRoot) {
  MpiCommunicator comm(MPI_COMM_WORLD, wait_at_most(kTimeout));
  for (int root = 0; root < comm.size(); ++root) {
    for (const at::ScalarType dtype : {at::kFloat, at::kDouble, at::kBFloat16, at::kLong}) {
      at::Tensor tensor = at::full({5, 7}, comm.rank() == root ? 3 : 0, dtype);
      comm.broadcast(tensor, root);
      EXPECT_TRUE(at::equal(tensor, at::full({5, 7}, 3, dtype)));
    }
  }
}

TEST(MpiCommunicator, ReducesToTheRootAlone) {
  MpiCommunicator comm(MPI_COMM_WORLD, wait_at_most(kTimeout));
  const int root = comm.size() - 1;
  at::Tensor tensor = at::arange(1000, at::kDouble) * (comm.rank() + 1);
  const at::Tensor mine = tensor.clone();
  comm.reduce_sum(tensor, root);
  const int weight = comm.size() * (comm.size() + 1) / 2;
  EXPECT_TRUE(
      at::equal(tensor, comm.rank() == root ? at::arange(1000, at::kDouble) * weight : mine));
}

TEST(MpiCommunicator, AllReducesToEverybody) {
  MpiCommunicator comm(MPI_COMM_WORLD, wait_at_most(kTimeout));
  at::Tensor tensor = at::full({3}, comm.rank() + 1, at::kLong);
  comm.all_reduce_sum(tensor);
  EXPECT_TRUE(at::equal(tensor, at::full({3}, comm.size() * (comm.size() + 1) / 2, at::kLong)));
}

TEST(MpiCommunicator, ARankThatWaitsLeavesItsCore) {
  MpiCommunicator comm(MPI_COMM_WORLD, wait_at_most(kTimeout));
  const auto processor_s = [] { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; };
  comm.barrier();
  const double before = processor_s();
  const auto start = std::chrono::steady_clock::now();
  if (comm.rank() == 1) std::this_thread::sleep_for(std::chrono::seconds(2));
  at::Tensor tensor = at::ones({1 << 20}, at::kDouble);
  comm.all_reduce_sum(tensor);
  const std::chrono::duration<double> waited = std::chrono::steady_clock::now() - start;
  EXPECT_LT(processor_s() - before, 0.3 * waited.count());
}

TEST(MpiCommunicator, LargeOperationsGiveWhatSmallOnesDo) {
  MpiCommunicator comm(MPI_COMM_WORLD, wait_at_most(kTimeout));
  const at::Tensor numbers = at::arange(500'000, at::kDouble);
  for (int root = 0; root < comm.size(); ++root) {
    at::Tensor sent = comm.rank() == root ? numbers.clone() : at::zeros_like(numbers);
    comm.broadcast(sent, root);
    EXPECT_TRUE(at::equal(sent, numbers));
    at::Tensor reduced = numbers.clone();
    comm.reduce_sum(reduced, root);
    EXPECT_TRUE(at::equal(reduced, comm.rank() == root ? numbers * comm.size() : numbers));
  }
  at::Tensor summed = numbers.clone();
  comm.all_reduce_sum(summed);
  EXPECT_TRUE(at::equal(summed, numbers * comm.size()));
}

TEST(MpiCommunicator, PassesTensorsAroundARing) {
  MpiCommunicator comm(MPI_COMM_WORLD, wait_at_most(kTimeout));
  const int next = (comm.rank() + 1) % comm.size();
  const int previous = (comm.rank() + comm.size() - 1) % comm.size();
  at::Tensor incoming = at::empty({300, 400}, at::kFloat);  // too large for an eager MPI send
  auto receiving = comm.receive(incoming, previous);
  auto sending = comm.send(at::full({300, 400}, comm.rank(), at::kFloat), next);
  receiving->wait();
  sending->wait();
  EXPECT_TRUE(at::equal(incoming, at::full({300, 400}, previous, at::kFloat)));
}

/// Returns rank `root`'s answer to all ranks.
bool agreed(MpiCommunicator& comm, bool answer, int root) {
  at::Tensor said = at::full({1}, answer ? 1 : 0, at::kLong);
  comm.broadcast(said, root);
  return said.item<int64_t>() == 1;
}

/// Returns whether rank 1's large message reaches rank 0 while rank 1 makes no MPI call. Rank 0
/// sends a small message in exchange and reports the arrival through a file.
bool arrives_while_the_sender_computes(MpiCommunicator& comm,
                                       const std::filesystem::path& arrived) {
  at::Tensor small = at::zeros({100'000}, at::kFloat);
  at::Tensor large = at::zeros({3'000'000}, at::kFloat);
  comm.barrier();
  bool seen = false;
  if (comm.rank() == 0) {
    auto receiving = comm.receive(large, 1);
    auto sending = comm.send(small, 1);
    receiving->wait();
    std::ofstream(arrived) << "it has\n";
    sending->wait();
  } else if (comm.rank() == 1) {
    auto receiving = comm.receive(small, 0);
    auto sending = comm.send(large, 0);
    receiving->wait();
    for (int look = 0; look < 300 && !seen; ++look) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));  // leaves the core to others
      seen = std::filesystem::exists(arrived);
    }
    sending->wait();
  }
  return agreed(comm, seen, 1);
}

/// Returns whether the ranks get their cores at once. A sender does not wait for a rank that other
/// programs keep from looking for the message.
bool ranks_are_alone(MpiCommunicator& comm) {
  comm.barrier();
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < 50; ++i) comm.barrier();
  const bool fast = std::chrono::steady_clock::now() - start < std::chrono::milliseconds(25);
  return agreed(comm, fast, 0);
}

TEST(MpiCommunicator, WhatARankHasSentArrivesWhileItComputes) {
  MpiCommunicator comm(MPI_COMM_WORLD, wait_at_most(kTimeout));
  const TemporaryDirectory dir;
  int failures = 0;  // rounds without other programs alone count
  for (int round = 0; round < 30 && failures < 5; ++round) {
    const std::string file = (dir.path() / std::to_string(round)).string();
    const bool alone = ranks_are_alone(comm);
    if (arrives_while_the_sender_computes(comm, broadcast_string(comm, file, 0))) return;
    if (alone && ranks_are_alone(comm)) ++failures;
  }
  if (failures < 5) GTEST_SKIP() << "other programs keep the ranks from their cores";
  FAIL() << "no message has arrived";
}

TEST(MpiCommunicator, MovesStringsOfAnyLength) {
  MpiCommunicator comm(MPI_COMM_WORLD, wait_at_most(kTimeout));
  EXPECT_EQ(broadcast_string(comm, comm.rank() == 1 ? "from one" : "", 1), "from one");
  EXPECT_EQ(broadcast_string(comm, "", 0), "");
  const auto texts = gather_strings(comm, std::string(static_cast<size_t>(comm.rank()), 'x'), 0);
  if (comm.rank() != 0) return;
  ASSERT_EQ(texts.size(), static_cast<size_t>(comm.size()));
  EXPECT_EQ(texts[2], "xx");
}

TEST(MpiCommunicator, RefusesToAddUpWhatMpiCannot) {
  MpiCommunicator comm(MPI_COMM_WORLD, wait_at_most(kTimeout));
  at::Tensor tensor = at::zeros({1}, at::kBFloat16);
  EXPECT_THROW(comm.all_reduce_sum(tensor), std::logic_error);
}

TEST(MpiCommunicator, SilentPeerEndsInAnErrorThatNamesTheOperation) {
  MpiCommunicator patient(MPI_COMM_WORLD, wait_at_most(kTimeout));
  MpiCommunicator impatient(MPI_COMM_WORLD, wait_at_most(std::chrono::seconds(1)));
  if (impatient.rank() == 0) {
    at::Tensor never = at::empty({1}, at::kFloat);
    try {
      impatient.receive(never, 1)->wait();
      ADD_FAILURE() << "no rank has sent";
    } catch (const CommunicationError& error) {
      EXPECT_THAT(error.what(), HasSubstr("receive from rank 1 did not complete within 1 s"));
    }
  } else if (impatient.rank() == 1) {
    // The receive that rank 0 gave up on needs its message before MPI can end.
    patient.barrier();
    impatient.send(at::zeros({1}, at::kFloat), 0)->wait();
    return;
  }
  patient.barrier();
}

HeartbeatOptions two_seconds() {
  HeartbeatOptions options;
  options.timeout = std::chrono::seconds(2);
  options.phase = [] { return "rest"; };
  return options;
}

TEST(MpiCommunicator, OperationMayTakeLongerThanTheTimeoutWhilePeersBeat) {
  MpiCommunicator patient(MPI_COMM_WORLD, wait_at_most(kTimeout));
  Heartbeats heartbeats(open_peer_sockets(patient), two_seconds());
  heartbeats.wait_for_peers();
  MpiCommunicator comm(MPI_COMM_WORLD, heartbeats.wait_limit());
  if (comm.rank() == 1) std::this_thread::sleep_for(std::chrono::seconds(5));
  comm.barrier();
  patient.barrier();
}

TEST(MpiCommunicator, RanksThatWaitForEachOtherEndInAnErrorThatNamesTheirOperations) {
  MpiCommunicator patient(MPI_COMM_WORLD, wait_at_most(kTimeout));
  Heartbeats heartbeats(open_peer_sockets(patient), two_seconds());
  heartbeats.wait_for_peers();
  MpiCommunicator comm(MPI_COMM_WORLD, heartbeats.wait_limit());
  const int next = (comm.rank() + 1) % comm.size();
  at::Tensor tensor = at::empty({1}, at::kFloat);
  try {
    comm.receive(tensor, next)->wait();
    ADD_FAILURE() << "no rank has sent";
  } catch (const CommunicationError& error) {
    EXPECT_THAT(error.what(), HasSubstr("no rank has made progress for 2 s (resources.timeout_s)"));
    EXPECT_THAT(error.what(),
                HasSubstr("rank 1 on " + host_name() + " waits in receive from rank 2 (wait 1)"));
  }
  patient.barrier();
  comm.send(tensor, (comm.rank() + comm.size() - 1) % comm.size());  // for the abandoned receives
  patient.barrier();
}

TEST(MpiCommunicator, SilentPeerEndsAnyWaitInAnErrorThatNamesIt) {
  MpiCommunicator patient(MPI_COMM_WORLD, wait_at_most(kTimeout));
  std::optional<Heartbeats> heartbeats;
  heartbeats.emplace(open_peer_sockets(patient), two_seconds());
  heartbeats->wait_for_peers();
  MpiCommunicator comm(MPI_COMM_WORLD, heartbeats->wait_limit());
  patient.barrier();
  if (comm.rank() == 1) heartbeats.reset();
  if (comm.rank() == 0) {
    at::Tensor tensor = at::empty({1}, at::kFloat);
    try {
      comm.receive(tensor, 2)->wait();
      ADD_FAILURE() << "no rank has sent";
    } catch (const CommunicationError& error) {
      EXPECT_EQ(error.what(), "receive from rank 2 did not complete: rank 1 on " + host_name() +
                                  " has been silent for 2 s (resources.timeout_s), last in rest");
    }
  }
  patient.barrier();
  if (comm.rank() == 2) comm.send(at::zeros({1}, at::kFloat), 0);  // for the abandoned receive
  patient.barrier();
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
