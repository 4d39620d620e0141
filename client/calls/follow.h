#pragma once

#include <csignal>
#include <functional>
#include <optional>
#include <string>

#include "client/calls/connection.h"

namespace dotresize {

/// Receives the events of a followed job, on the thread that called watch_job.
class WatchObserver {
 public:
  virtual ~WatchObserver() = default;
  /// Called for each new connection, with the job's current state.
  virtual void connected(const v1::Job& job) = 0;
  /// Called for every event of the job once, in order.
  virtual void event(const v1::Event& event) = 0;
  virtual void disconnected(const std::string& why) = 0;
  /// Called several times a second while nothing happens.
  virtual void tick() = 0;
};

/// Receives the changes of all jobs that match a filter, on the thread that called watch_jobs.
class JobsObserver {
 public:
  virtual ~JobsObserver() = default;
  /// Called for each new connection.
  virtual void connected() = 0;
  /// Called for every change, as the server sends it. Changes begin with LISTING; after a broken
  /// connection they continue behind the last one.
  virtual void change(const v1::JobChange& change) = 0;
  virtual void disconnected() = 0;
};

/// Exit code that a shell expects of a program stopped by SIGINT.
inline constexpr int kExitInterrupted = 130;

/// Scope in which the first SIGINT is only recorded; a second one ends the program as usual. At
/// most one instance at a time.
class InterruptGuard {
 public:
  InterruptGuard();
  ~InterruptGuard();
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;

  bool interrupted() const;

 private:
  struct sigaction previous_ {};
};

/// Follows the job until it has ended, and returns it; nullopt once `interrupted` returns true. A
/// broken connection is made again and resumes after the last event seen. Throws RpcError if the
/// server does not answer the first call, stays away too long, or refuses.
std::optional<v1::Job> watch_job(Connection& connection, const std::string& id,
                                 WatchObserver& observer, const std::function<bool()>& interrupted,
                                 const FollowOptions& options = {});

/// Follows all matching jobs until `interrupted` returns true. Connections and errors are handled
/// as in watch_job.
void watch_jobs(Connection& connection, const v1::ListJobsRequest::Filter& filter,
                JobsObserver& observer, const std::function<bool()>& interrupted,
                const FollowOptions& options = {});

/// Reads a job's log from its beginning and passes it to `print` piece by piece. `follow`: reads
/// until the job has ended, and resumes where it was when the server comes back. Throws RpcError.
void read_logs(Connection& connection, const std::string& id, bool follow,
               const std::function<void(const std::string&)>& print);

/// Reads the last `bytes` of the log of an ended job. Throws RpcError.
std::string read_log_tail(Connection& connection, const std::string& id, int64_t bytes);

}  // namespace dotresize
