#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "dotresize/v1/jobs.pb.h"
#include "server/attempt_process.h"
#include "server/state_dir.h"

namespace dotresize {

/// Runs jobs with mpirun on this machine. Nothing about an attempt is kept in memory: a launcher of
/// a later server knows it as well. Used by one thread.
class LocalLauncher {
 public:
  /// `coordinator`: HOST:PORT at which ranks reach the Workers service.
  LocalLauncher(const StateDir& state, std::string coordinator);

  /// Starts `job.attempt()`. Throws if that is not possible; then nothing runs.
  void launch(const v1::Job& job, const std::string& token);
  AttemptStatus check(const v1::Job& job);
  /// Asks the attempt to end, see stop_attempt().
  bool stop(const v1::Job& job) const;
  /// For an attempt that has vanished: kills the processes left of it. True if there were none.
  bool clear_leftovers(const v1::Job& job) const;
  /// The end of what this attempt has written.
  std::string log_tail(const v1::Job& job) const;

 private:
  void reap_supervisors();

  const StateDir& state_;
  std::string coordinator_;
  std::vector<pid_t> supervisors_;
};

/// MPI ranks of a job.
int ranks_of(const v1::JobSpec& spec);

/// What a job's processes see of this process's environment: PATH, HOME, LANG, LC_ALL, TMPDIR,
/// LD_LIBRARY_PATH, OMP_NUM_THREADS, CUDA_VISIBLE_DEVICES and DOTRESIZE_*.
std::vector<std::string> inherited_environment();

}  // namespace dotresize
