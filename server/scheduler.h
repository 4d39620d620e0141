#pragma once

#include <atomic>
#include <chrono>
#include <map>
#include <string>
#include <thread>

#include "base/failure.h"
#include "server/heartbeats.h"
#include "server/job_store.h"
#include "server/job_output.h"
#include "server/launcher.h"
#include "server/path_policy.h"

namespace dotresize {

struct SchedulerLimits {
  int max_ranks = 8;  ///< sum over all launched jobs
  std::chrono::seconds heartbeat_timeout{60};
  int max_attempts = 3;  ///< launches of one job whose processes vanish without exit.json
};

/// Takes jobs through their lives, on one thread of its own: starts the oldest queued job when
/// there is room for its ranks (strictly first in, first out), polls the attempts of launched jobs
/// (also of those that an earlier server launched), ends them. It holds no state that the job table
/// and the attempts' directories do not have, except which processes it has asked to end.
class Scheduler {
 public:
  Scheduler(JobStore& store, Launchers& launchers, Heartbeats& heartbeats, Trash& trash,
            const PathPolicy& paths, SchedulerLimits limits);
  /// Leaves the running jobs running.
  ~Scheduler();

 private:
  void loop();
  /// If this thread comes late, so may have done those that hear heartbeats: nobody is silent then.
  void notice_delay();
  void poll_attempt(const v1::Job& seen);
  /// Stops a live attempt that is being cancelled or has been silent for too long.
  void stop_if_unwanted(const v1::Job& job);
  void restart_vanished(const v1::Job& job);
  void start_queued();
  void start_attempt(const v1::Job& job, const std::string& reason);
  JobOutput output_of(const v1::Job& job) const;
  /// Whether this attempt has completed the output: then the job has succeeded, however its
  /// processes ended.
  bool has_output(const v1::Job& job) const;
  Outcome succeeded(const v1::Job& job) const;
  Outcome outcome_of(const v1::Job& job, const ExitRecord& exit) const;
  void end(const v1::Job& job, const Outcome& outcome);

  JobStore& store_;
  Launchers& launchers_;
  Heartbeats& heartbeats_;
  Trash& trash_;
  const PathPolicy& paths_;
  const SchedulerLimits limits_;
  /// Why the server itself is stopping a job, by job.
  std::map<std::string, Failure> stop_reasons_;
  Heartbeats::Clock::time_point last_round_;
  std::map<std::string, int> stopped_attempts_;  ///< that were asked to end, by job
  std::atomic<bool> stopping_{false};
  std::thread thread_;  ///< last: it uses all the others
};

}  // namespace dotresize
