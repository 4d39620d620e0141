#pragma once

#include <csignal>
#include <functional>
#include <optional>
#include <string>

#include "client/calls/connection.h"

namespace dotresize {

/// Receives the events of a followed job, on the thread that called watch_job.
struct WatchObserver {
  /// Called for each new connection, with the job's current state.
  std::function<void(const v1::Job&)> connected = [](const v1::Job&) {};
  /// Called for every event of the job once, in order.
  std::function<void(const v1::Event&)> event;
  std::function<void()> disconnected = [] {};
  /// Called several times a second while nothing happens.
  std::function<void()> tick = [] {};
};

/// Receives the changes of all jobs that match a filter, on the thread that called watch_jobs.
struct JobsObserver {
  /// Called for each new connection.
  std::function<void()> connected = [] {};
  /// Called for every change, as the server sends it. Changes begin with LISTING; after a broken
  /// connection they continue behind the last one.
  std::function<void(const v1::JobChange&)> change;
  std::function<void()> disconnected = [] {};
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
                                 const WatchObserver& observer,
                                 const std::function<bool()>& interrupted,
                                 const FollowOptions& options = {});

/// Follows all matching jobs until `interrupted` returns true. Connections and errors are handled
/// as in watch_job.
void watch_jobs(Connection& connection, const v1::ListJobsRequest::Filter& filter,
                const JobsObserver& observer, const std::function<bool()>& interrupted,
                const FollowOptions& options = {});

/// Reads a job's log from its beginning and passes it to `print` piece by piece. `follow`: reads
/// until the job has ended, and resumes where it was when the server comes back. Throws RpcError.
void read_logs(Connection& connection, const std::string& id, bool follow,
               const std::function<void(const std::string&)>& print);

/// Reads the last `bytes` of the log of an ended job. Throws RpcError.
std::string read_log_tail(Connection& connection, const std::string& id, int64_t bytes);

}  // namespace dotresize
