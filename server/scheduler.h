#pragma once

#include <atomic>
#include <chrono>
#include <map>
#include <string>
#include <thread>

#include "base/failure.h"
#include "server/heartbeats.h"
#include "server/job_store.h"
#include "server/launcher.h"

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
  Scheduler(JobStore& store, Launchers& launchers, Heartbeats& heartbeats, SchedulerLimits limits);
  /// Leaves the running jobs running.
  ~Scheduler();

 private:
  void loop();
  void poll_attempt(const v1::Job& seen);
  /// Stops a live attempt that is being cancelled or has been silent for too long.
  void stop_if_unwanted(const v1::Job& job);
  void restart_vanished(const v1::Job& job);
  void start_queued();
  void start_attempt(const v1::Job& job, const std::string& reason);
  Outcome outcome_of(const v1::Job& job, const ExitRecord& exit) const;
  void end(const v1::Job& job, const Outcome& outcome);

  JobStore& store_;
  Launchers& launchers_;
  Heartbeats& heartbeats_;
  const SchedulerLimits limits_;
  /// Why the server itself is stopping a job, by job.
  std::map<std::string, Failure> stop_reasons_;
  std::map<std::string, int> stopped_attempts_;  ///< that were asked to end, by job
  std::atomic<bool> stopping_{false};
  std::thread thread_;  ///< last: it uses all the others
};

}  // namespace dotresize
