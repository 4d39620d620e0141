#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/process/mutex.h"
#include "dotresize/v1/jobs.pb.h"
#include "job/remote/transfer.h"

namespace dotresize {

/// Status of a fetch or a push.
struct TransferStatus {
  bool ended = false;                  ///< the work has returned: what it has written may be read
  std::optional<TransferError> error;  ///< set after a failure
  std::optional<v1::Progress> news;    ///< new progress, at most once a second, while it runs
};

/// Runs a fetch or a push on its own thread; the owner polls it.
class BackgroundTransfer {
 public:
  /// Runs a command of job/remote/transfer.h to its end. Throws like TransferOutput::result.
  using Run = std::function<TransferResult(const std::vector<std::string>& command)>;

  /// Starts `work` on the thread. `phase`: kFetchPhase or kPushPhase.
  BackgroundTransfer(std::string phase, std::function<void(const Run& run)> work);
  /// Stops the transfer and waits for its end, which may take some seconds.
  ~BackgroundTransfer() = default;
  BackgroundTransfer(const BackgroundTransfer&) = delete;
  BackgroundTransfer& operator=(const BackgroundTransfer&) = delete;

  /// Asks the transfer to end; does not wait.
  void request_stop() { thread_.request_stop(); }
  TransferStatus poll();

 private:
  using Clock = std::chrono::steady_clock;

  Mutex mutex_;
  TransferStatus status_ DOTRESIZE_GUARDED_BY(mutex_);
  Clock::time_point told_ DOTRESIZE_GUARDED_BY(mutex_);
  std::jthread thread_;  ///< last member: it uses all the others
};

}  // namespace dotresize
