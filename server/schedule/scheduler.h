#pragma once

#include <atomic>
#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <thread>

#include "base/errors.h"
#include "base/failure.h"
#include "server/access/access.h"
#include "server/access/path_policy.h"
#include "server/launch/heartbeats.h"
#include "server/launch/launcher.h"
#include "server/schedule/queue_hold.h"
#include "server/schedule/queue_view.h"
#include "server/store/clocks.h"
#include "server/store/job_output.h"
#include "server/store/job_store.h"
#include "server/store/resources.h"
#include "server/store/state_dir.h"
#include "server/transfer/pusher.h"

namespace dotresize {

struct SchedulerLimits {
  int max_attempts = 3;  ///< launches of a job whose processes are lost or killed
  std::chrono::seconds heartbeat_timeout{60};
  std::chrono::seconds retry_delay{10};  ///< pause before attempt 2; doubles each time
};

/// Collaborators of the scheduler; all of them outlive it.
struct SchedulerContext {
  JobStore& store;
  const StateDir& state;
  Launchers& launchers;
  Heartbeats& heartbeats;
  Trash& trash;
  const PathPolicy& paths;
  const Access& access;
  const Machine& machine;
  const Drain& drain;
  QueueView& view;  ///< receives the state of each round
};

inline const Outcome kCancelled = {v1::Job::CANCELLED, std::nullopt, std::nullopt};

/// The last request to an attempt to end.
struct StopRequest {
  int attempt = 0;
  Heartbeats::Clock::time_point time;
};

/// Runs the life cycle of jobs on its own thread. It starts the job at the head of the queue once
/// the machine has what it needs, and jobs behind it that fit beside that. It polls the attempts of
/// launched jobs, including those that an earlier server launched, and ends or requeues them. It
/// deletes jobs whose retention time is over. If this machine cannot start any job, the queue is
/// held, longer each time; jobs of another launcher that is not ready wait alone. All lasting state
/// is in the job table and in the attempts' directories.
class Scheduler {
 public:
  Scheduler(const SchedulerContext& context, SchedulerLimits limits);
  /// Stops the thread; running jobs go on.
  ~Scheduler() = default;

  /// Time since the scheduler last began a round over all jobs. Thread-safe.
  Heartbeats::Clock::duration time_since_round() const;
  /// True if this machine could not start a job and none has run since. Thread-safe.
  bool is_held() const { return hold_.is_on(); }

 private:
  void loop(const std::stop_token& stop);
  /// Detects that this server was suspended or busy. Heartbeats may then be unread, so all jobs get
  /// their whole timeout again. Returns true in that case.
  bool notice_delay();
  void poll_attempt(const v1::Job& seen);
  /// Stops a live attempt that is being cancelled, has been silent for too long, or has passed its
  /// deadline: asks it to end, again every kStopInterval while this is called. The first reason is
  /// kept and becomes the job's error.
  void stop_if_unwanted(const v1::Job& job);
  /// Ends the job, starts its push, or requeues it if another attempt may succeed.
  void end_or_retry(const v1::Job& job, const Outcome& outcome);
  bool requeue(const v1::Job& job, const std::string& reason, std::chrono::seconds pause,
               bool started = true);
  void start_queued();
  /// Starts the job if there is room; otherwise returns what it waits for. `head`: needs of the
  /// first job that waits.
  std::string start_if_room(const QueuedJob& queued, Leases& leases, std::optional<Amounts>& head);
  void start_attempt(const v1::Job& job, const std::string& gpus);
  /// A fault if the job's deadline passes within `pause` from now.
  Verdict check_deadline(const v1::Job& job, std::chrono::seconds pause);
  /// Drops the in-memory state of a launched job.
  void forget(const std::string& id);
  JobOutput output_of(const v1::Job& job) const;
  /// Rights over existing outputs that the job's owner has now.
  OutputRights rights_of(const v1::Job& job) const;
  Outcome succeeded(const v1::Job& job);
  Outcome outcome_of(const v1::Job& job, const AttemptStatus& status);
  /// Time since the job's first start.
  std::chrono::milliseconds run_time(const v1::Job& job);
  static Outcome failed(const Failure& failure);
  /// Starts the push of a completed output to its remote place. The job no longer uses this
  /// machine's resources.
  void begin_push(const v1::Job& job);
  /// Ends the job once its push has ended.
  void follow_push(const v1::Job& job);
  void end(const v1::Job& job, const Outcome& outcome);

  const SchedulerContext context_;
  const SchedulerLimits limits_;
  std::atomic<Heartbeats::Clock::time_point> last_round_;
  QueueHold hold_;
  RunClock run_clock_;
  Pusher pusher_;
  std::map<std::string, StopRequest> stop_requests_;  ///< last requests, by job
  std::map<std::string, std::string>
      launcher_faults_;                               ///< faults of other launchers, by queued job
  Heartbeats::Clock::time_point next_launcher_look_;  ///< when these are forgotten
  std::map<std::string, AttemptNote> notes_;          ///< notes of launched jobs, by id
  std::jthread thread_;                               ///< last member: it uses all the others
};

}  // namespace dotresize
