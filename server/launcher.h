#pragma once

#include <sys/types.h>

#include <map>
#include <memory>
#include <string>

#include "dotresize/v1/jobs.pb.h"
#include "server/attempt.h"
#include "server/state_dir.h"

namespace dotresize {

/// Starts the processes of a job's attempts, watches them and ends them. Nothing about an attempt
/// is kept in memory alone: a launcher of a later server knows it as well. Used by one thread.
class Launcher {
 public:
  virtual ~Launcher() = default;

  /// Throws ProgramMissing if this machine lacks what any job needs.
  virtual void require_ready() const = 0;
  /// Starts `job.attempt()`, which sees `job.gpus()` alone. Throws if that is not possible; then
  /// nothing runs.
  virtual void launch(const v1::Job& job, const std::string& token) = 0;
  virtual AttemptStatus check(const v1::Job& job) = 0;
  /// Asks the attempt to end. False if it cannot be asked (yet).
  virtual bool stop(const v1::Job& job) = 0;
  /// For an attempt that has vanished: kills the processes left of it. True if there were none.
  virtual bool clear_leftovers(const v1::Job& job) = 0;
  /// Removes what an attempt without processes has left outside of its folder and output.
  virtual void clean_up(const v1::Job& job) = 0;
  /// The end of what this attempt has written.
  virtual std::string log_tail(const v1::Job& job) = 0;
};

/// MPI ranks of a job.
int ranks_of(const v1::JobSpec& spec);

/// What launchers are made of.
struct LauncherContext {
  const StateDir& state;
  mode_t umask;             ///< of what jobs write
  std::string coordinator;  ///< where ranks reach the Workers service, as gRPC names it
};

/// A launcher for each value of `resources.launcher`.
class Launchers {
 public:
  explicit Launchers(const LauncherContext& context);

  /// The one that the job asks for. Throws std::invalid_argument if there is none.
  Launcher& of(const v1::Job& job);
  /// Throws ProgramMissing if one of them is not ready.
  void require_ready() const;

 private:
  std::map<v1::Resources::Launcher, std::unique_ptr<Launcher>> launchers_;
};

}  // namespace dotresize
