#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

#include "base/failure.h"
#include "base/files/attempt_file.h"
#include "dotresize/v1/jobs.pb.h"

namespace dotresize {

/// Sends heartbeats with the job's progress to the server. They are sent at once if something has
/// changed (at most five a second), else every two seconds, by a separate thread that takes no
/// signals. If the server is away, the thread keeps trying and the job goes on. If the server
/// answers `stop`, the thread raises SIGTERM in this process.
class AttemptHeartbeats {
 public:
  /// `progress` is called from the heartbeat thread.
  AttemptHeartbeats(AttemptFile attempt, std::function<v1::Progress()> progress);
  /// Sends the changes since the last heartbeat, for at most two seconds.
  ~AttemptHeartbeats();
  AttemptHeartbeats(const AttemptHeartbeats&) = delete;
  AttemptHeartbeats& operator=(const AttemptHeartbeats&) = delete;

 private:
  void loop();

  const AttemptFile attempt_;
  const std::function<v1::Progress()> progress_;
  std::mutex mutex_;  ///< guards ended_
  std::condition_variable wake_;
  bool ended_ = false;
  std::thread thread_;  ///< last member: it uses all the others
};

/// Tells the server why this attempt, or one of its ranks, fails. Waits at most two seconds for the
/// answer and ignores errors: the exit code and the log say the same.
void report_failure(const AttemptFile& attempt, const Failure& failure);

}  // namespace dotresize
