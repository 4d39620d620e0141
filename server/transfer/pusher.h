#pragma once

#include <map>
#include <memory>
#include <string>

#include "dotresize/v1/jobs.pb.h"
#include "server/transfer/background_transfer.h"

namespace dotresize {

struct PushStatus : TransferStatus {
  std::string revision = {};  ///< set after success
};

/// Pushes outputs, a few at a time; the owner polls them. Pushes are repeatable: what a killed
/// server began is pushed again, and little is sent twice. Not thread-safe.
class Pusher {
 public:
  explicit Pusher(const RemoteCache& cache) : cache_(cache) {}
  /// Stops all pushes and waits for their ends.
  ~Pusher();
  Pusher(const Pusher&) = delete;
  Pusher& operator=(const Pusher&) = delete;

  /// Starts the push of the job's output once there is room for one more, and returns its status. A
  /// push that has ended is forgotten. `rights`: over an output that is there.
  PushStatus poll(const v1::Job& job, const OutputRights& rights);
  /// Stops the job's push and returns its status, like poll(). A push that has not begun ends at
  /// once.
  PushStatus stop(const std::string& id);

 private:
  struct Push {
    std::string revision;
    std::unique_ptr<BackgroundTransfer> transfer;  ///< last member: it writes the revision
  };

  PushStatus status_of(const std::string& id);

  const RemoteCache cache_;
  std::map<std::string, Push> pushes_;  ///< keyed by job id
};

}  // namespace dotresize
