#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>

#include "dotresize/v1/jobs.pb.h"
#include "job/remote/localized_job.h"
#include "server/transfer/background_transfer.h"

namespace dotresize {

/// How a push stands.
struct PushStatus {
  bool ended = false;
  std::string revision;                ///< of one that has ended well
  std::optional<TransferError> error;  ///< of one that has not
  std::optional<v1::Progress> news;    ///< of one that has not ended
};

/// Pushes outputs, a few at a time, which its owner looks after. A push can be repeated: what a
/// killed server has begun another one begins again, and little is sent twice. For one thread.
class Pusher {
 public:
  explicit Pusher(const RemoteCache& cache) : cache_(cache) {}
  /// Breaks off all of them.
  ~Pusher();
  Pusher(const Pusher&) = delete;
  Pusher& operator=(const Pusher&) = delete;

  /// Begins the push of the job's output once there is room for one more, or looks after it.
  /// Forgets one that has ended.
  PushStatus poll(const v1::Job& job);
  /// The same for one that is to be broken off: it has ended at once if it had not begun.
  PushStatus stop(const std::string& id);

 private:
  struct Push {
    std::string revision;
    std::unique_ptr<BackgroundTransfer> transfer;  ///< last: it writes the revision
  };

  void begin(const v1::Job& job);
  PushStatus status_of(const std::string& id);

  const RemoteCache cache_;
  std::map<std::string, Push> pushes_;  ///< by job
};

}  // namespace dotresize
