#pragma once

#include <atomic>
#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <thread>

#include "base/failure.h"
#include "server/access/path_policy.h"
#include "server/api/queue_view.h"
#include "server/launch/launcher.h"
#include "server/schedule/heartbeats.h"
#include "server/schedule/job_output.h"
#include "server/schedule/queue_hold.h"
#include "server/schedule/run_clock.h"
#include "server/store/drain.h"
#include "server/store/job_store.h"
#include "server/store/resources.h"
#include "server/transfer/pusher.h"

namespace dotresize {

struct SchedulerLimits {
  int max_attempts = 3;  ///< launches of one job whose processes are lost or killed
  std::chrono::seconds heartbeat_timeout{60};
  std::chrono::seconds retry_delay{10};  ///< before the second attempt; doubled with each
  int max_remote_jobs = 100;             ///< launched at once by other launchers than local
};

/// What the scheduler works with; all of it outlives the scheduler.
struct SchedulerContext {
  JobStore& store;
  const StateDir& state;
  Launchers& launchers;
  Heartbeats& heartbeats;
  Trash& trash;
  const PathPolicy& paths;
  const Machine& machine;
  const Drain& drain;
  QueueView& view;  ///< is told of each round
};

/// An attempt was asked to end.
struct StopRequest {
  int attempt = 0;
  Heartbeats::Clock::time_point time;
};

/// Takes jobs through their lives, on one thread of its own: starts the job at the head of the
/// queue once the machine has what it needs, and jobs behind it that fit beside that, polls the
/// attempts of launched jobs (also of those that an earlier server launched), ends them or puts
/// them back into the queue, and deletes those whose time is over. If this machine cannot start any
/// job, the queue is held, for longer each time. It holds no state that the job table and the
/// attempts' directories do not have, except when it has last asked processes to end.
class Scheduler {
 public:
  Scheduler(const SchedulerContext& context, SchedulerLimits limits);
  /// Leaves the running jobs running.
  ~Scheduler();

  /// Since it has last looked at all jobs. From any thread.
  Heartbeats::Clock::duration time_since_round() const;
  /// Whether this machine could not start a job, and none has run since. From any thread.
  bool is_held() const { return hold_.is_on(); }

 private:
  void loop();
  /// If this thread comes late, so may have done those that hear heartbeats: nobody is silent then.
  /// Whether it does so.
  bool notice_delay();
  /// Somebody may have set the wall clock.
  void notice_clock();
  bool is_silent(const v1::Job& job);
  void poll_attempt(const v1::Job& seen);
  /// The processes of an attempt are gone, and others are started for the job: they are the next
  /// attempt's, unless it has had enough.
  void follow_restart(const v1::Job& job, const std::string& reason);
  /// Stops a live attempt that is being cancelled, has been silent for too long, or has passed its
  /// deadline. Whether it is one.
  bool stop_if_unwanted(const v1::Job& job);
  /// Why the server itself is to stop it.
  std::optional<Failure> reason_to_stop(const v1::Job& job);
  /// Its first reason is kept, and is why it fails.
  void stop_because(const v1::Job& job, const Failure& reason);
  /// Again and again, for as long as it is called.
  void ask_to_end(const v1::Job& job);
  /// `ran`: its processes had begun.
  void end_vanished(const v1::Job& job, bool ran);
  /// Ends the job, or puts it back into the queue if another attempt may succeed.
  void end_or_retry(const v1::Job& job, const Outcome& outcome);
  /// Whether this was the last one that the job may have.
  bool is_last_attempt(const v1::Job& job) const;
  bool put_back(const v1::Job& job, const std::string& reason, std::chrono::seconds pause,
                bool started = true);
  void start_queued();
  /// The job's start, unless too much runs: then why it waits. `head`: what the first job that
  /// waits needs.
  std::string start_if_room(const QueuedJob& queued, Leases& leases, std::optional<Amounts>& head);
  void refuse_for_good(const QueuedJob& queued, const Amounts& need);
  /// Why no job may be started at all; empty if they may.
  std::string pause_reason() const;
  void start(const QueuedJob& queued, const Amounts& need, Leases& leases);
  void start_attempt(const v1::Job& job, const std::string& gpus);
  /// Why the job has no time left for another attempt; empty if it has.
  std::string missed_deadline(const v1::Job& job, std::chrono::seconds pause);
  void remove_expired();
  /// Whether the machine has what the job's launcher needs; else the queue is held.
  bool is_ready_for(const v1::Job& job);
  void hold_queue(const std::string& reason);
  /// What only this process knows of a launched job.
  void forget(const std::string& id);
  JobOutput output_of(const v1::Job& job) const;
  /// Whether this attempt has completed the output: then the job has succeeded, however its
  /// processes ended.
  bool has_output(const v1::Job& job) const;
  Outcome succeeded(const v1::Job& job) const;
  Outcome outcome_of(const v1::Job& job, const AttemptStatus& status) const;
  static Outcome failed(const Failure& failure);
  static Outcome cancelled() { return {v1::Job::CANCELLED, std::nullopt, std::nullopt}; }
  /// The output is made, and belongs elsewhere: from here on the job has nothing of the machine.
  void begin_push(const v1::Job& job);
  /// Ends the job once its push has ended.
  void follow_push(const v1::Job& job);
  void end_unpushed(const v1::Job& job, const TransferError& error);
  /// The output is there, and goes from here.
  void keep_pushed_report(const v1::Job& job) const;
  void end(const v1::Job& job, const Outcome& outcome);

  JobStore& store_;
  const StateDir& state_;
  Launchers& launchers_;
  Heartbeats& heartbeats_;
  Trash& trash_;
  const PathPolicy& paths_;
  const Machine& machine_;
  const Drain& drain_;
  QueueView& view_;
  const SchedulerLimits limits_;
  std::atomic<Heartbeats::Clock::time_point> last_round_;
  QueueHold hold_;
  RunClock run_clock_;
  ClockWatch clock_watch_;
  Pusher pusher_;
  std::map<std::string, StopRequest> stop_requests_;  ///< the last ones, by job
  std::map<std::string, AttemptNote> notes_;          ///< of launched jobs
  std::atomic<bool> stopping_{false};
  std::thread thread_;  ///< last: it uses all the others
};

}  // namespace dotresize
