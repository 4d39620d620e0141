#pragma once

#include <sched.h>

#include <csignal>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "worker/comm/heartbeats.h"
#include "worker/comm/mpi_communicator.h"
#include "worker/cuda/cuda_module.h"

namespace dotresize {

// This process as one rank of a job: its end, its share of the host, its links to others.

/// Ends the process cleanly on SIGTERM, SIGINT and SIGHUP, whatever the main thread is computing. A
/// separate thread waits for them, runs `clean_up`, and exits with kExitCancelled. Construct it
/// before any other thread: threads that start later have the signals blocked.
class StopSignals {
 public:
  StopSignals();
  /// Starts the thread that ends the process on a signal.
  void watch(std::function<void()> clean_up);

 private:
  sigset_t signals_;
};

/// Makes the kernel kill this process when its parent dies, if the parent is an MPI launcher, so
/// that no rank outlives mpirun.
void die_with_launcher();

/// Scope from MPI_Init to MPI_Finalize.
class MpiSession {
 public:
  /// Throws std::runtime_error if srun started several processes that MPI does not connect, because
  /// each would compute the whole job. From here on a mapped file that has become shorter ends the
  /// process with a sentence.
  MpiSession();
  ~MpiSession();
  MpiSession(const MpiSession&) = delete;
  MpiSession& operator=(const MpiSession&) = delete;
};

/// Rank of this process in MPI_COMM_WORLD.
int world_rank();
int world_size();

/// The job's ranks on this host.
struct HostRanks {
  int rank = 0;                  ///< this process's number among them
  std::vector<cpu_set_t> cores;  ///< cores that each rank may use, by rank
};

HostRanks ranks_on_this_host();

/// Returns the number of cores that this process may use, each divided by the number of the host's
/// ranks that may use it too; at least 1. This works if a launcher has bound ranks to cores or not.
int fair_share_of_cores(const HostRanks& ranks);

/// Number of cores that this process may use; 0 if OMP_NUM_THREADS is set.
int usable_cores(const HostRanks& ranks);

/// Sets one thread for each core of the fair share, unless OMP_NUM_THREADS is set.
void set_threads(const HostRanks& ranks);

/// Creates a communicator whose transfers may block until both ranks have begun them. `host` and
/// the objects that `limit` refers to must outlive it. Collective over `host`.
using MakeTransport =
    std::function<std::unique_ptr<Communicator>(Communicator& host, WaitLimit limit)>;

/// Links between the ranks while the job runs: heartbeats, MPI, and NCCL or another transport for
/// tensors. A single rank has none of them.
class RankLinks {
 public:
  /// Without a `transport` uses NCCL if the ranks compute on GPUs (`cuda` is not null), else MPI.
  /// Collective over `comm`.
  RankLinks(Communicator& comm, const MakeTransport& transport, CudaModule* cuda,
            HeartbeatOptions options);

  bool is_peer_silent() const { return heartbeats_ && !heartbeats_->silence().empty(); }
  Communicator& comm();

 private:
  SelfCommunicator alone_;
  std::optional<Heartbeats> heartbeats_;
  std::optional<MpiCommunicator> host_;
  std::optional<MpiCommunicator> notes_;
  std::unique_ptr<Communicator> transport_;
  std::unique_ptr<Communicator> announced_;
};

}  // namespace dotresize
