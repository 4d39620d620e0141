#pragma once

#include <chrono>
#include <filesystem>
#include <set>
#include <string>
#include <utility>

#include "server/launch/launcher.h"

namespace dotresize {

/// Launcher for ranks that somebody else starts. It shows the command to run, waits for rank 0's
/// first call, and knows about the ranks only what they report. Ranks are asked to end in the
/// answers to their calls. An attempt that was asked to end and has been silent for some seconds
/// has ended.
class ExternalLauncher final : public Launcher {
 public:
  explicit ExternalLauncher(const LauncherContext& context);

  void require_ready() const override;
  void launch(const v1::Job& job, const std::string& token) override;
  AttemptStatus check(const v1::Job& job) override;
  bool stop(const v1::Job& job) override;
  void clean_up(const v1::Job& job) override;

 private:
  /// Command line for a shell.
  std::string command(const v1::Job& job) const;

  const StateDir& state_;
  JobStore& store_;
  const Heartbeats& heartbeats_;
  const RemoteWorkers server_;
  const std::chrono::seconds timeout_;
  std::set<std::pair<std::string, int>> stopped_;  ///< attempts asked to end
};

}  // namespace dotresize
