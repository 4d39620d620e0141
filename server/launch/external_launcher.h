#pragma once

#include <chrono>
#include <filesystem>
#include <set>
#include <string>
#include <utility>

#include "server/launch/launcher.h"

namespace dotresize {

/// Leaves it to somebody else to start the ranks: names the command, waits for rank 0's first call,
/// and knows of the ranks what they say. They are asked to end by the answer to that call; an
/// attempt whose ranks have been silent for some seconds since has ended.
class ExternalLauncher final : public Launcher {
 public:
  explicit ExternalLauncher(const LauncherContext& context);

  void require_ready() const override;
  void launch(const v1::Job& job, const std::string& token) override;
  AttemptStatus check(const v1::Job& job) override;
  bool stop(const v1::Job& job) override;
  bool clear_leftovers(const v1::Job& job) override;
  void clean_up(const v1::Job& job) override;
  /// Empty: whoever has started the ranks has what they write.
  std::string log_tail(const v1::Job& job) override;

 private:
  std::filesystem::path attempt_file(const v1::Job& job) const;
  /// For a shell.
  std::string command(const v1::Job& job) const;
  /// Of an attempt whose rank 0 has not called yet.
  AttemptStatus waiting(const v1::Job& job) const;

  const StateDir& state_;
  JobStore& store_;
  const Heartbeats& heartbeats_;
  const RemoteWorkers server_;
  const std::chrono::seconds timeout_;
  std::set<std::pair<std::string, int>> stopped_;  ///< attempts that are to end
};

}  // namespace dotresize
