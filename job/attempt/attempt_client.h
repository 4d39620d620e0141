#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

#include "base/attempt_file.h"
#include "base/failure.h"
#include "dotresize/v1/jobs.pb.h"

namespace dotresize {

/// Sends heartbeats with the progress to the server, from a thread of its own that takes no
/// signals: at once when something has changed (at most five a second), else every two seconds. A
/// server that is away is tried again; the job goes on meanwhile. If it answers `stop`, SIGTERM is
/// raised in this process.
class AttemptHeartbeats {
 public:
  /// `progress` is called from that thread.
  AttemptHeartbeats(AttemptFile attempt, std::function<v1::Progress()> progress);
  /// What has changed since the last heartbeat is sent, for at most two seconds.
  ~AttemptHeartbeats();
  AttemptHeartbeats(const AttemptHeartbeats&) = delete;
  AttemptHeartbeats& operator=(const AttemptHeartbeats&) = delete;

 private:
  void loop();

  const AttemptFile attempt_;
  const std::function<v1::Progress()> progress_;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool ended_ = false;
  std::thread thread_;  ///< last: it uses all the others
};

/// Tells the server why this attempt, or one of its ranks, fails; waits at most two seconds for the
/// answer and ignores failure: the exit code and the log tell the same.
void report_failure(const AttemptFile& attempt, const Failure& failure);

}  // namespace dotresize
