#include "server/schedule/scheduler.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <utility>

#include "base/errors.h"
#include "server/access/access.h"
#include "server/access/request_budget.h"
#include "server/admission/job_admission.h"
#include "server/common/api_error.h"
#include "server/common/log_format.h"
#include "server/launch/attempt.h"
#include "server/launch/outcome.h"
#include "server/store/job_output.h"

namespace dotresize {
namespace {

// Delay until an ended process is noticed. Everything else wakes the loop through the store's
// changes.
constexpr std::chrono::milliseconds kPollInterval{200};
constexpr std::chrono::seconds kPauseAfterError{2};
// Longer than a supervisor needs to kill a command that does not end. The supervisor may have been
// suspended, so it is asked again.
constexpr std::chrono::seconds kStopInterval{15};
// Number of queued jobs that a round looks at, counted from the head: local jobs and remote jobs
// each.
constexpr int kQueueWindow = 200;
// Jobs launched at once by launchers other than local.
constexpr int kMaxRemoteJobs = 100;
constexpr int kExpiredAtOnce = 20;
constexpr std::chrono::seconds kLauncherPause{1};  // between looks at launchers that are not ready

/// Runs the body. Returns false if it threw, which is logged: an error of one job must not stop the
/// others.
template <class Body>
bool guarded(const std::string& what, Body&& body) {
  try {
    body();
    return true;
  } catch (const std::exception& error) {
    spdlog::error("scheduler: {}: {}", what, error.what());
    return false;
  }
}

}  // namespace

Scheduler::Scheduler(const SchedulerContext& context, SchedulerLimits limits)
    : context_(context),
      limits_(limits),
      last_round_(Heartbeats::Clock::now()),
      pusher_(context.paths.remote().cache()) {
  for (const v1::Job& job : context_.store.launched()) {
    log_job(spdlog::level::info, job, "attempt " + std::to_string(job.attempt()) + " found again");
    context_.heartbeats.begin(job.id());
  }
  thread_ = std::jthread([this](const std::stop_token& stop) { loop(stop); });
}

void Scheduler::loop(const std::stop_token& stop) {
  while (!stop.stop_requested()) {
    const uint64_t version = context_.store.changes().version();
    bool error_seen = false;
    error_seen |= !guarded("the clock", [&] {
      const std::chrono::milliseconds jump = context_.store.clock().jump();
      if (jump.count() == 0) return;
      context_.store.shift_waits(jump);
      spdlog::warn("the clock was set by {} s: what waits for a time waits as long as before",
                   std::chrono::duration_cast<std::chrono::seconds>(jump).count());
    });
    notice_delay();
    error_seen |= !guarded("launched jobs", [&] {
      for (const v1::Job& job : context_.store.launched()) {
        error_seen |= !guarded(job.id(), [&] { poll_attempt(job); });
      }
    });
    error_seen |= !guarded("queue", [&] { start_queued(); });
    error_seen |= !guarded("expired jobs", [&] {
      for (const std::string& id : context_.store.expired(kExpiredAtOnce)) {
        remove_job(context_.store, context_.state, context_.trash, id);
        log_job(spdlog::level::info, id, 0, "deleted: its retention time is over");
      }
    });
    if (error_seen) std::this_thread::sleep_for(kPauseAfterError);
    context_.store.changes().wait_past(version, kPollInterval);
  }
}

Heartbeats::Clock::duration Scheduler::time_since_round() const {
  return Heartbeats::Clock::now() - last_round_.load();
}

bool Scheduler::notice_delay() {
  const Heartbeats::Clock::time_point now = Heartbeats::Clock::now();
  const auto delay = now - last_round_.exchange(now);
  if (delay < limits_.heartbeat_timeout / 2.0) return false;
  spdlog::warn("the server was stopped or busy for {:.1f} s; the timeouts of its jobs start again",
               std::chrono::duration<double>(delay).count());
  context_.heartbeats.begin_all();
  return true;
}

void Scheduler::poll_attempt(const v1::Job& seen) {
  if (seen.pushing()) return follow_push(context_.store.get(seen.id()));
  const AttemptStatus status = context_.launchers.of(seen).check(seen);
  run_time(seen);  // from here on by the steady clock
  const v1::Job job =
      context_.store.get(seen.id());  // read again: a cancel may have come meanwhile
  notes_[job.id()] = {status.note, status.command};
  switch (status.liveness) {
    case Liveness::kWaiting:
      hold_.see(job.id(), /*runs=*/false);
      context_.heartbeats.begin(job.id());  // no heartbeat is expected
      stop_if_unwanted(job);
      return;
    case Liveness::kAlive:
      hold_.see(job.id(), job.state() == v1::Job::RUNNING);
      stop_if_unwanted(job);
      return;
    case Liveness::kExited:
      return end_or_retry(job, outcome_of(job, status));
    case Liveness::kVanished: {
      if (!context_.launchers.of(job).clear_leftovers(job)) return;  // polled again: no two at once
      if (output_of(job).is_committed(job.attempt())) return end_or_retry(job, succeeded(job));
      if (job.cancelling()) return end(job, kCancelled);
      const std::string attempt = "attempt " + std::to_string(job.attempt());
      // A server that ends while it starts an attempt must not fail the job.
      return end_or_retry(
          job, status.ran ? failed({kLost, -1, "", job.progress().phase(),
                                    "the processes of " + attempt + " vanished"})
                          : failed({kLaunchFailed, -1, "", "", attempt + " was not started"}));
    }
  }
}

void Scheduler::stop_if_unwanted(const v1::Job& job) {
  if (!job.cancelling() && !job.has_stop_reason()) {
    const std::string& phase = job.progress().phase();
    Failure reason;
    // The order matters: the server may be suspended at any point of a round.
    if (context_.heartbeats.silence(job.id()) > limits_.heartbeat_timeout && !notice_delay()) {
      reason = Failure{kLost, -1, "", phase,
                       "no heartbeat for " + std::to_string(limits_.heartbeat_timeout.count()) +
                           " s; the job was stopped"};
    } else {
      const Verdict deadline = check_deadline(job, std::chrono::seconds(0));
      if (deadline) return;
      reason = Failure{kDeadlineExceeded, -1, "", phase, deadline.fault()};
    }
    // The table is written first, so that a later server also knows why the attempt ended.
    context_.store.request_stop(job.id(), job.attempt(), to_job_error(reason));
  }
  const Heartbeats::Clock::time_point now = Heartbeats::Clock::now();
  const auto last = stop_requests_.find(job.id());
  const bool asked = last != stop_requests_.end() && last->second.attempt == job.attempt() &&
                     now - last->second.time < kStopInterval;
  if (!asked && context_.launchers.of(job).stop(job)) {
    stop_requests_[job.id()] = {job.attempt(), now};
  }
}

void Scheduler::start_queued() {
  const std::vector<v1::Job> launched = context_.store.launched();
  Leases leases(context_.machine, launched);
  // Reason why no job may start at all; empty: jobs may start.
  const auto pause_reason = [&]() -> std::string {
    if (context_.drain.is_on()) return kDrainedReason;
    const std::string held = hold_.reason();
    return held.empty() ? "" : "this machine cannot start jobs: " + held;
  };
  QueueState state;
  state.paused = pause_reason();
  state.held = hold_.last_reason();
  int remote = 0;  // launched jobs that run elsewhere
  for (const v1::Job& job : launched) {
    ++state.launched[launcher_of(job)];
    if (!runs_here(job)) ++remote;
  }
  if (const auto now = Heartbeats::Clock::now(); now >= next_launcher_look_) {
    launcher_faults_.clear();
    next_launcher_look_ = now + kLauncherPause;
  }
  std::optional<Amounts> head;  // needs of the first job that does not fit
  const std::vector<QueuedJob> queue = context_.store.queued(kQueueWindow);
  if (queue.empty()) hold_.see_empty_queue();
  for (const QueuedJob& queued : queue) {
    if (!state.paused.empty()) break;
    if (queued.is_remote() && remote >= kMaxRemoteJobs) {
      state.waiting[queued.id] =
          fmt::format("the end of one of the {} jobs that others run", remote);
      continue;
    }
    // A launcher that is not ready keeps its own jobs waiting, and none that others run.
    const auto fault = launcher_faults_.find(queued.id);
    const std::string waiting =
        fault != launcher_faults_.end() ? fault->second : start_if_room(queued, leases, head);
    if (launcher_faults_.contains(queued.id)) ++state.without_launcher;
    if (!waiting.empty()) {
      if (head && state.head.empty()) state.head = queued.id;
      state.waiting[queued.id] = waiting;
      continue;
    }
    if (queued.is_remote()) ++remote;
    state.paused = pause_reason();
  }
  if (head) {
    std::vector<Release> releases;  // as far as the ends of jobs are known
    for (const v1::Job& job : launched) {
      if (job.state() != v1::Job::RUNNING || !job.has_progress()) continue;
      const double seconds = job.progress().eta_s();
      if (seconds >= 0.0) releases.push_back({seconds, amounts_of(job)});
    }
    state.head_start_s = seconds_until_free(*head, leases.free(), releases);
  }
  state.used = leases.used();
  state.notes = notes_;
  context_.view.set(std::move(state));
}

std::string Scheduler::start_if_room(const QueuedJob& queued, Leases& leases,
                                     std::optional<Amounts>& head) {
  const Amounts need =
      queued.is_remote()
          ? Amounts{}
          : Amounts{queued.ranks,
                    gpus_needed(queued.device, queued.ranks, context_.machine.capacity),
                    queued.memory};
  if (!fits(need, context_.machine.capacity)) {
    end(context_.store.get(queued.id),
        failed({kLaunchFailed, -1, "", "",
                "the job needs " + shortage(need, context_.machine.capacity, "here") +
                    "; this server was restarted with less"}));
    return "";
  }
  // A job behind the head takes nothing that the head needs: whichever job ends next, the head
  // starts no later.
  const Amounts free = head ? leases.free() - *head : leases.free();
  if (!fits(need, free)) {
    const char* where = head ? "free beside what the head of the queue waits for" : "free";
    if (!head) head = need;
    return shortage(need, free, where);
  }
  const v1::Job job = context_.store.get(queued.id);
  const Verdict deadline = check_deadline(job, std::chrono::seconds(0));
  if (job.error().code() == kDamagedRecord) {
    end(job, {v1::Job::FAILED, job.error(), std::nullopt});
  } else if (!deadline) {
    end(job, failed({kDeadlineExceeded, -1, "", "", deadline.fault()}));
  } else if (!context_.machine.offers(launcher_of(job))) {
    end(job, failed({kLaunchFailed, -1, "", "",
                     "this server was restarted without the launcher " + launcher_of(job)}));
  } else {
    try {
      if (!job.pushing()) context_.launchers.of(job).require_ready();  // a push starts no ranks
    } catch (const ProgramMissing& error) {
      if (queued.is_remote()) return launcher_faults_[queued.id] = error.what();
      hold_.begin(error.what());
      return "";
    }
    start_attempt(job, fmt::format("{}", fmt::join(leases.take(need), ",")));
  }
  return "";
}

void Scheduler::start_attempt(const v1::Job& job, const std::string& gpus) {
  const SecretToken token = make_secret_token();
  const std::optional<v1::Job> started = context_.store.begin_attempt(job.id(), token.sha256, gpus);
  if (!started) return;
  if (started->pushing()) return begin_push(*started);
  context_.heartbeats.begin(started->id());
  hold_.launch(started->id());
  log_job(spdlog::level::info, *started,
          fmt::format("attempt {} with {} ranks", started->attempt(), ranks_at_once(*started)));
  try {
    const BackgroundBudget budget;
    v1::Job launched = *started;
    // The rights are those of now: the job may have waited for long.
    const OutputRights rights = rights_of(*started);
    const std::string output = context_.store.output_of(job.id());
    if (job.has_sweep()) {
      readmit_sweep(launched, output, context_.paths);
    } else {
      *launched.mutable_spec() = readmit(job.spec(), output, context_.paths, copies_of(job));
    }
    if (context_.machine.memory_declared && runs_here(launched)) {
      set_memory_budget(*launched.mutable_spec(), context_.machine.capacity.memory);
    }
    require_ownership(claims_of(launched.spec()), rights);
    context_.launchers.of(launched).launch(launched, {token.secret, rights});
  } catch (const ApiError& error) {  // a path has changed since admission
    end(*started, failed({kInvalidInput, -1, "", "", error.what()}));
  } catch (const std::exception& error) {
    end_or_retry(*started, failed({kLaunchFailed, -1, "", "", error.what()}));
  }
}

OutputRights Scheduler::rights_of(const v1::Job& job) const {
  return dotresize::rights_of(context_.access, job.owner(), job.id(), job.attempt());
}

void Scheduler::forget(const std::string& id) {
  context_.heartbeats.forget(id);
  hold_.forget(id);
  stop_requests_.erase(id);
  notes_.erase(id);
}

}  // namespace dotresize
