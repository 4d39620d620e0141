#pragma once

#include <atomic>
#include <chrono>
#include <map>
#include <string>
#include <thread>

#include "server/heartbeats.h"
#include "server/job_store.h"
#include "server/local_launcher.h"

namespace dotresize {

struct SchedulerLimits {
  int max_ranks = 8;  ///< sum over all launched jobs
  std::chrono::seconds heartbeat_timeout{60};
  int max_attempts = 3;  ///< launches of one job whose processes vanish without a word
};

/// Takes jobs through their lives, on one thread of its own: starts the oldest queued job when
/// there is room for its ranks (strictly first in, first out), looks after those that were launched
/// (also by an earlier server), ends them. It holds no state that the job table and the attempts'
/// directories do not have, but what it has asked processes to do.
class Scheduler {
 public:
  Scheduler(JobStore& store, LocalLauncher& launcher, Heartbeats& heartbeats,
            SchedulerLimits limits);
  /// Leaves the running jobs running.
  ~Scheduler();

 private:
  void loop();
  void tend(const v1::Job& seen);
  void tend_alive(const v1::Job& job);
  void restart_vanished(const v1::Job& job);
  void start_queued();
  void start_attempt(const v1::Job& job, const std::string& reason);
  Outcome outcome_of(const v1::Job& job, const ExitRecord& exit) const;
  void end(const v1::Job& job, const Outcome& outcome);

  JobStore& store_;
  LocalLauncher& launcher_;
  Heartbeats& heartbeats_;
  const SchedulerLimits limits_;
  /// Jobs that are being stopped for a reason of the server's own, with that reason.
  std::map<std::string, v1::JobError> condemned_;
  std::map<std::string, int> asked_to_stop_;  ///< the attempt
  std::atomic<bool> stopping_{false};
  std::thread thread_;  ///< last: it uses all the others
};

}  // namespace dotresize
