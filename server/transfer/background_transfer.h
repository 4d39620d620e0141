#pragma once

#include <chrono>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "dotresize/v1/jobs.pb.h"
#include "job/remote/transfer.h"

namespace dotresize {

/// Fetches or pushes on a thread of its own; another one looks after it now and then.
class BackgroundTransfer {
 public:
  /// Runs a program of job/remote/transfer.h to its end. Throws as TransferOutput::result.
  using Run = std::function<TransferResult(const std::vector<std::string>& command)>;

  /// `work` runs on that thread. `phase`: kFetchPhase or kPushPhase.
  BackgroundTransfer(std::string phase, std::function<void(const Run& run)> work);
  /// Breaks it off and waits for its end, which may take some seconds.
  ~BackgroundTransfer() = default;
  BackgroundTransfer(const BackgroundTransfer&) = delete;
  BackgroundTransfer& operator=(const BackgroundTransfer&) = delete;

  /// Asks it to end, and does not wait.
  void request_stop() { thread_.request_stop(); }
  /// Then the caller may read what `work` has written.
  bool has_ended() const;
  /// Why it has ended without success; nothing if it has not.
  std::optional<TransferError> error() const;
  /// How far it is; nothing if there is no news, and once a second at most.
  std::optional<v1::Progress> news();

 private:
  using Clock = std::chrono::steady_clock;

  void work_on(const std::function<void(const Run&)>& work, const std::stop_token& stop);

  const std::string phase_;
  mutable std::mutex mutex_;
  bool ended_ = false;
  std::optional<TransferError> error_;
  std::optional<v1::Progress> news_;
  Clock::time_point told_;
  std::jthread thread_;  ///< last: it uses all the others
};

}  // namespace dotresize
