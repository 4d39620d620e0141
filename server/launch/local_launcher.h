#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "dotresize/v1/jobs.pb.h"
#include "server/launch/launcher.h"

namespace dotresize {

/// Runs jobs with mpirun on this machine.
class LocalLauncher final : public Launcher {
 public:
  /// The state directory outlives the launcher.
  explicit LocalLauncher(const LauncherContext& context);

  void require_ready() const override;
  void launch(const v1::Job& job, const std::string& token) override;
  AttemptStatus check(const v1::Job& job) override;
  /// See stop_attempt(). Kills the leftovers of an attempt whose supervisor cannot be asked.
  bool stop(const v1::Job& job) override;
  bool clear_leftovers(const v1::Job& job) override;
  void clean_up(const v1::Job& job) override;
  std::string log_tail(const v1::Job& job) override;

 private:
  const StateDir& state_;
  mode_t umask_;
  std::string coordinator_;
  std::vector<std::string> roots_;
  std::vector<pid_t> supervisors_;
};

}  // namespace dotresize
