#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>

#include "client/calls/connection.h"

namespace dotresize {

/// Receives what happens to a job that is followed, on the thread that called watch_job.
class WatchObserver {
 public:
  virtual ~WatchObserver() = default;
  /// The job as it was when the connection was made, each time that it is made.
  virtual void connected(const v1::Job& job) = 0;
  /// Every event of the job once, in order.
  virtual void event(const v1::Event& event) = 0;
  virtual void disconnected(const std::string& why) = 0;
  /// Several times a second while nothing happens.
  virtual void tick() = 0;
};

/// Receives what happens to all jobs that match a filter, on the thread that called watch_jobs.
class JobsObserver {
 public:
  virtual ~JobsObserver() = default;
  /// Each time that the connection is made.
  virtual void connected() = 0;
  /// As the server sends them, from LISTING or, after a connection that broke, from what follows
  /// the last one.
  virtual void change(const v1::JobChange& change) = 0;
  virtual void disconnected() = 0;
};

struct FollowOptions {
  std::chrono::milliseconds first_pause{200};
  std::chrono::milliseconds max_pause{5000};
  /// How long a server may stay away once it has answered.
  std::chrono::milliseconds patience{600'000};
  std::chrono::milliseconds tick{200};
  /// The stream is asked for afresh after this long, so that a dead connection is noticed.
  std::chrono::seconds stream_deadline{300};
};

/// Follows the job until it has ended and returns it, or nothing once `interrupted` says true.
/// A connection that breaks is made again and resumes after the last event seen. Throws RpcError
/// when the server does not answer the first call, stays away too long, or refuses.
std::optional<v1::Job> watch_job(Connection& connection, const std::string& id,
                                 WatchObserver& observer, const std::function<bool()>& interrupted,
                                 const FollowOptions& options = {});

/// Follows all jobs that match until `interrupted` says true. Connections and errors as in
/// watch_job.
void watch_jobs(Connection& connection, const v1::ListJobsRequest::Filter& filter,
                JobsObserver& observer, const std::function<bool()>& interrupted,
                const FollowOptions& options = {});

/// Reads a job's log from its beginning and hands it to `print` piece by piece. `follow`: until the
/// job has ended, resuming where it was when the server comes back. Throws RpcError.
void read_logs(Connection& connection, const std::string& id, bool follow,
               const std::function<void(const std::string&)>& print);

/// The last bytes of the log of a job that has ended. Throws RpcError.
std::string read_log_tail(Connection& connection, const std::string& id, int64_t bytes);

}  // namespace dotresize
