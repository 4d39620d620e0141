#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "dotresize/v1/jobs.pb.h"
#include "job/remote/localized_job.h"

namespace dotresize {

/// How a push stands.
struct PushStatus {
  bool ended = false;
  std::string revision;                ///< of one that has ended well
  std::optional<TransferError> error;  ///< of one that has not
  v1::Progress progress;
};

/// Pushes outputs, each on a thread of its own, which its owner polls. Pushes are idempotent: what
/// a killed server has begun another one begins again, and little is sent twice. For one thread.
class Pusher {
 public:
  explicit Pusher(const RemoteCache& cache) : cache_(cache) {}

  /// Begins the push of the job's output, or looks after it.
  PushStatus poll(const v1::Job& job);
  /// Breaks it off, if there is one, and forgets it.
  void forget(const std::string& id) { pushes_.erase(id); }

 private:
  struct Push {
    std::mutex mutex;
    PushStatus status;
    std::jthread thread;  ///< last: it uses the others
  };

  const RemoteCache cache_;
  std::map<std::string, std::unique_ptr<Push>> pushes_;  ///< by job
};

}  // namespace dotresize
