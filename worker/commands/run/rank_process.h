#pragma once

#include <sched.h>

#include <csignal>
#include <functional>
#include <vector>

namespace dotresize {

// This process as one rank of a job: how it ends, and what it has of its host.

/// Ends the process cleanly on SIGTERM, SIGINT and SIGHUP, whatever the main thread is computing: a
/// thread of its own waits for them, runs `clean_up`, and leaves with kExitCancelled. Make it
/// before any other thread: the signals are blocked in all threads that are started later.
class StopSignals {
 public:
  StopSignals();
  /// From now on a signal ends the process.
  void watch(std::function<void()> clean_up);

 private:
  sigset_t signals_;
};

/// Has the kernel kill this process when its parent dies, if the parent is an MPI launcher: no
/// rank outlives mpirun.
void die_with_launcher();

/// MPI from MPI_Init to MPI_Finalize.
class MpiSession {
 public:
  /// Throws std::runtime_error if srun has started several processes that MPI does not know of each
  /// other: each would compute the whole job.
  MpiSession();
  ~MpiSession();
  MpiSession(const MpiSession&) = delete;
  MpiSession& operator=(const MpiSession&) = delete;
};

/// Of MPI_COMM_WORLD.
int world_rank();
int world_size();

/// The ranks of the job on this host.
struct HostRanks {
  int rank = 0;                  ///< of this process among them
  std::vector<cpu_set_t> cores;  ///< by rank: what each may use

  int size() const { return static_cast<int>(cores.size()); }
};

HostRanks ranks_on_this_host();

/// The cores that this process may use, each divided by the number of the host's ranks that may use
/// it too; at least 1. A launcher may have bound every rank to cores of its own, or none.
int fair_share_of_cores(const HostRanks& ranks);

/// All cores that this process may use; 0 if OMP_NUM_THREADS has decided.
int usable_cores(const HostRanks& ranks);

/// A thread for each core of the fair share, unless OMP_NUM_THREADS decides.
void set_threads(const HostRanks& ranks);

}  // namespace dotresize
