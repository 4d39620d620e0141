#include "server/schedule/scheduler.h"

#include <fmt/format.h>
#include <google/protobuf/util/time_util.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

#include "base/errors.h"
#include "base/process/program.h"
#include "job/report/report.h"
#include "job/spec/job_state.h"
#include "job/spec/remote_url.h"
#include "server/api/job_admission.h"
#include "server/api/job_removal.h"
#include "server/api/sweep_admission.h"
#include "server/api_error.h"
#include "server/launch/attempt.h"
#include "server/launch/outcome.h"
#include "server/log_format.h"
#include "server/schedule/sweep_directory.h"
#include "server/store/job_result.h"

namespace dotresize {
namespace {

// Delay until an ended process is noticed. Everything else wakes the loop through the store's
// changes.
constexpr std::chrono::milliseconds kPollInterval{200};
constexpr std::chrono::seconds kPauseAfterError{2};
constexpr std::chrono::seconds kLongestRetryDelay{3600};
// Longer than a supervisor needs to kill a command that does not end. The supervisor may have been
// suspended, so it is asked again.
constexpr std::chrono::seconds kStopInterval{15};
// Number of queued jobs that a round looks at, counted from the head: local jobs and remote jobs
// each.
constexpr int kQueueWindow = 200;
constexpr int kExpiredAtOnce = 20;

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

/// Number of attempts of a launched job that had processes, including this one.
int started_attempts(const v1::Job& job) { return job.attempt() - job.unstarted_attempts(); }

/// Resources that the jobs give back, and when, as far as their ends are known.
std::vector<Release> releases_of(const std::vector<v1::Job>& launched) {
  std::vector<Release> releases;
  for (const v1::Job& job : launched) {
    if (job.state() != v1::Job::RUNNING || !job.has_progress()) continue;
    const double seconds = job.progress().eta_s();
    if (seconds >= 0.0) releases.push_back({seconds, amounts_of(job)});
  }
  return releases;
}

}  // namespace

Outcome Scheduler::failed(const Failure& failure) {
  return {v1::Job::FAILED, to_job_error(failure), std::nullopt};
}

Scheduler::Scheduler(const SchedulerContext& context, SchedulerLimits limits)
    : store_(context.store),
      state_(context.state),
      launchers_(context.launchers),
      heartbeats_(context.heartbeats),
      trash_(context.trash),
      paths_(context.paths),
      machine_(context.machine),
      drain_(context.drain),
      view_(context.view),
      limits_(limits),
      last_round_(Heartbeats::Clock::now()),
      pusher_(context.paths.remote().cache()) {
  for (const v1::Job& job : store_.launched()) {
    log_job(spdlog::level::info, job, "attempt " + std::to_string(job.attempt()) + " found again");
    heartbeats_.begin(job.id());
  }
  thread_ = std::thread([this] { loop(); });
}

Scheduler::~Scheduler() {
  stopping_ = true;
  thread_.join();
}

void Scheduler::loop() {
  while (!stopping_) {
    const uint64_t version = store_.changes().version();
    bool error_seen = false;
    error_seen |= !guarded("the clock", [&] { notice_clock(); });
    notice_delay();
    error_seen |= !guarded("launched jobs", [&] {
      for (const v1::Job& job : store_.launched()) {
        error_seen |= !guarded(job.id(), [&] { poll_attempt(job); });
      }
    });
    error_seen |= !guarded("queue", [&] { start_queued(); });
    error_seen |= !guarded("expired jobs", [&] { remove_expired(); });
    if (error_seen) std::this_thread::sleep_for(kPauseAfterError);
    store_.changes().wait_past(version, kPollInterval);
  }
}

Heartbeats::Clock::duration Scheduler::time_since_round() const {
  return Heartbeats::Clock::now() - last_round_.load();
}

bool Scheduler::notice_delay() {
  const Heartbeats::Clock::time_point now = Heartbeats::Clock::now();
  const auto delay = now - last_round_.exchange(now);
  if (delay < limits_.heartbeat_timeout / 2.0) return false;
  spdlog::warn(
      "the server was stopped or busy for {:.1f} s; the jobs get their whole timeout again",
      std::chrono::duration<double>(delay).count());
  heartbeats_.begin_all();
  return true;
}

void Scheduler::notice_clock() {
  const std::chrono::milliseconds jump = clock_watch_.jump();
  if (jump.count() == 0) return;
  spdlog::warn(
      "the clock was set by {} s: what waits for another attempt waits as long as it would",
      std::chrono::duration_cast<std::chrono::seconds>(jump).count());
  store_.shift_retries(jump);
}

bool Scheduler::is_silent(const v1::Job& job) {
  // The order matters: the server may be suspended at any point of a round.
  return heartbeats_.silence(job.id()) > limits_.heartbeat_timeout && !notice_delay();
}

void Scheduler::poll_attempt(const v1::Job& seen) {
  if (seen.pushing()) return follow_push(store_.get(seen.id()));
  const AttemptStatus status = launchers_.of(seen).check(seen);
  const v1::Job job = store_.get(seen.id());  // read again: a cancel may have come meanwhile
  notes_[job.id()] = {status.note, status.command};
  switch (status.liveness) {
    case Liveness::kWaiting:
      hold_.see(job.id(), /*runs=*/false);
      heartbeats_.begin(job.id());  // no heartbeat is expected
      stop_if_unwanted(job);
      return;
    case Liveness::kAlive:
      hold_.see(job.id(), job.state() == v1::Job::RUNNING);
      stop_if_unwanted(job);
      return;
    case Liveness::kExited:
      return end_or_retry(job, outcome_of(job, status));
    case Liveness::kVanished:
      return end_vanished(job, status.ran);
  }
}

std::optional<Failure> Scheduler::reason_to_stop(const v1::Job& job) {
  if (is_silent(job)) {
    return Failure{kLost, -1, "", job.progress().phase(),
                   "no heartbeat for " + std::to_string(limits_.heartbeat_timeout.count()) +
                       " s; the job was stopped"};
  }
  const std::string missed = missed_deadline(job, std::chrono::seconds(0));
  if (missed.empty()) return std::nullopt;
  return Failure{kDeadlineExceeded, -1, "", job.progress().phase(), missed};
}

bool Scheduler::stop_if_unwanted(const v1::Job& job) {
  if (job.cancelling() || job.has_stop_reason()) {
    request_stop(job);
    return true;
  }
  const std::optional<Failure> reason = reason_to_stop(job);
  if (reason) stop_because(job, *reason);
  return reason.has_value();
}

void Scheduler::stop_because(const v1::Job& job, const Failure& reason) {
  // The table is written first, so that a later server also knows why the attempt ended.
  if (!job.has_stop_reason()) {
    store_.request_stop(job.id(), job.attempt(), to_job_error(reason));
  }
  request_stop(job);
}

void Scheduler::request_stop(const v1::Job& job) {
  const Heartbeats::Clock::time_point now = Heartbeats::Clock::now();
  const auto last = stop_requests_.find(job.id());
  const bool asked = last != stop_requests_.end() && last->second.attempt == job.attempt() &&
                     now - last->second.time < kStopInterval;
  if (!asked && launchers_.of(job).stop(job)) stop_requests_[job.id()] = {job.attempt(), now};
}

JobOutput Scheduler::output_of(const v1::Job& job) const {
  return JobOutput(store_.output_of(job.id()), job.id());
}

bool Scheduler::has_output(const v1::Job& job) const {
  return output_of(job).is_committed(job.attempt());
}

Outcome Scheduler::succeeded(const v1::Job& job) const {
  try {
    const std::string output = store_.output_of(job.id());
    return {v1::Job::SUCCEEDED, std::nullopt,
            job.has_sweep() ? sweep_result_of(job, output) : result_of(job, output)};
  } catch (const InputError& error) {
    return failed({kRankFailed, -1, "", job.progress().phase(),
                   std::string("the job has ended well but left no report: ") + error.what()});
  }
}

Outcome Scheduler::outcome_of(const v1::Job& job, const AttemptStatus& status) const {
  const bool here = runs_here(job);
  const bool ended_well = status.exit.exit_code == kExitOk;
  if (has_output(job) || (ended_well && here)) return succeeded(job);
  if (job.cancelling()) return cancelled();
  if (job.has_stop_reason()) return {v1::Job::FAILED, job.stop_reason(), std::nullopt};
  if (status.failure) return failed(*status.failure);
  Launcher& launcher = launchers_.of(job);
  const FailureEvidence evidence = {status.exit,
                                    store_.reported_failure(job.id(), job.attempt()),
                                    launcher.log_tail(job),
                                    job.progress().phase(),
                                    here && ranks_of(job.spec()) == 1,
                                    launcher.starter(),
                                    job.has_sweep()};
  v1::JobError error = explain_failure(evidence);
  if (here && job.state() == v1::Job::STARTING && ended_without_a_word(evidence)) {
    const std::string fault = launcher.worker_fault();
    if (!fault.empty()) return failed({kLaunchFailed, -1, "", "", fault});
  }
  // srun exits with 0 if it could not start the ranks.
  if (ended_well && !evidence.reported) error.set_code(kLost);
  return {v1::Job::FAILED, error, std::nullopt};
}

void Scheduler::end_vanished(const v1::Job& job, bool ran) {
  if (!launchers_.of(job).clear_leftovers(job)) return;  // polled again: no two at once
  if (has_output(job)) return end_or_retry(job, succeeded(job));
  if (job.cancelling()) return end(job, cancelled());
  const std::string attempt = "attempt " + std::to_string(job.attempt());
  // A server that ends while it starts an attempt must not fail the job.
  const Failure failure = ran ? Failure{kLost, -1, "", job.progress().phase(),
                                        "the processes of " + attempt + " vanished"}
                              : Failure{kLaunchFailed, -1, "", "", attempt + " was not started"};
  end_or_retry(job, failed(failure));
}

void Scheduler::end_or_retry(const v1::Job& job, const Outcome& outcome) {
  if (outcome.state == v1::Job::SUCCEEDED && is_remote(job.spec().output().path())) {
    return begin_push(job);
  }
  if (outcome.state != v1::Job::FAILED) return end(job, outcome);
  const std::string& reason = outcome.error->message();
  const Remedy remedy = remedy_for(*outcome.error);
  if (remedy == Remedy::kHoldQueue) {
    hold_queue(reason);
    if (requeue(job, reason, std::chrono::seconds(0), /*started=*/false)) return;
    return end(job, cancelled());
  }
  hold_.see(job.id(), /*runs=*/true);  // it has run
  if (remedy == Remedy::kNone || limits_.max_attempts == 1) return end(job, outcome);
  if (is_last_attempt(job)) {
    Outcome last = outcome;
    last.error->set_message(reason + "; the last attempt of " +
                            std::to_string(limits_.max_attempts));
    return end(job, last);
  }
  const int doublings = std::min(started_attempts(job) - 1, 12);
  const auto pause = std::min(limits_.retry_delay * (1 << doublings), kLongestRetryDelay);
  const std::string missed = missed_deadline(job, pause);
  if (!missed.empty()) {
    return end(job, failed({kDeadlineExceeded, -1, "", "", reason + "; " + missed}));
  }
  if (!requeue(job, reason, pause)) end(job, cancelled());
}

bool Scheduler::is_last_attempt(const v1::Job& job) const {
  return started_attempts(job) >= limits_.max_attempts;
}

bool Scheduler::requeue(const v1::Job& job, const std::string& reason, std::chrono::seconds pause,
                        bool started) {
  output_of(job).trim();
  launchers_.of(job).clean_up(job);
  if (!store_.requeue(job.id(), reason, pause, started)) return false;
  forget(job.id());
  log_job(spdlog::level::warn, job,
          fmt::format("queued again, for in {} s at the earliest: {}", pause.count(), reason));
  return true;
}

bool Scheduler::is_ready_for(const v1::Job& job) {
  try {
    launchers_.of(job).require_ready();
    return true;
  } catch (const ProgramMissing& error) {
    hold_queue(error.what());
    return false;
  }
}

void Scheduler::hold_queue(const std::string& reason) {
  const std::chrono::seconds length = hold_.begin(reason);
  spdlog::error("the queue is held for {} s, because this machine cannot start jobs: {}",
                length.count(), reason);
}

std::string Scheduler::pause_reason() const {
  if (drain_.is_on()) return kDrainedReason;
  const std::string held = hold_.reason();
  return held.empty() ? "" : "this machine cannot start jobs: " + held;
}

void Scheduler::start_queued() {
  const std::vector<v1::Job> launched = store_.launched();
  Leases leases(machine_, launched);
  QueueState state;
  state.paused = pause_reason();
  state.held = hold_.last_reason();
  int remote = 0;  // launched jobs that run elsewhere
  for (const v1::Job& job : launched) {
    ++state.launched[launcher_of(job)];
    if (!runs_here(job)) ++remote;
  }
  std::optional<Amounts> head;  // needs of the first job that does not fit
  const std::vector<QueuedJob> queue = store_.queued(kQueueWindow);
  if (queue.empty()) hold_.see_empty_queue();
  for (const QueuedJob& queued : queue) {
    if (!state.paused.empty()) break;
    if (queued.is_remote() && remote >= limits_.max_remote_jobs) {
      state.waiting[queued.id] =
          fmt::format("the end of one of the {} jobs that others run (--max-remote-jobs)", remote);
      continue;
    }
    const std::string waiting = start_if_room(queued, leases, head);
    if (!waiting.empty()) {
      if (head && state.head.empty()) state.head = queued.id;
      state.waiting[queued.id] = waiting;
      continue;
    }
    if (queued.is_remote()) ++remote;
    state.paused = pause_reason();
  }
  if (head) state.head_start_s = seconds_until_free(*head, leases.free(), releases_of(launched));
  state.used = leases.used();
  state.notes = notes_;
  view_.set(std::move(state));
}

std::string Scheduler::start_if_room(const QueuedJob& queued, Leases& leases,
                                     std::optional<Amounts>& head) {
  const Amounts need =
      queued.is_remote()
          ? Amounts{}
          : Amounts{queued.ranks, gpus_needed(queued.device, queued.ranks, machine_.capacity),
                    queued.memory};
  if (!fits(need, machine_.capacity)) {
    refuse_for_good(queued, need);
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
  start(queued, need, leases);
  return "";
}

void Scheduler::refuse_for_good(const QueuedJob& queued, const Amounts& need) {
  end(store_.get(queued.id), failed({kLaunchFailed, -1, "", "",
                                     "the job needs " + shortage(need, machine_.capacity, "here") +
                                         "; this server was restarted with less"}));
}

void Scheduler::start(const QueuedJob& queued, const Amounts& need, Leases& leases) {
  const v1::Job job = store_.get(queued.id);
  if (job.error().code() == kDamagedRecord) {
    return end(job, {v1::Job::FAILED, job.error(), std::nullopt});
  }
  const std::string missed = missed_deadline(job, std::chrono::seconds(0));
  if (!missed.empty()) {
    return end(job, failed({kDeadlineExceeded, -1, "", "", missed}));
  }
  if (!machine_.offers(launcher_of(job))) {
    return end(job, failed({kLaunchFailed, -1, "", "",
                            "this server was restarted without the launcher " + launcher_of(job)}));
  }
  if (!is_ready_for(job)) return;
  start_attempt(job, join_gpus(leases.take(need)));
}

std::string Scheduler::missed_deadline(const v1::Job& job, std::chrono::seconds pause) {
  using google::protobuf::util::TimeUtil;
  if (!job.options().has_deadline_s() || !job.has_start_time()) return "";
  const int64_t deadline_s = job.options().deadline_s();
  const std::chrono::seconds by_wall(TimeUtil::TimestampToSeconds(TimeUtil::GetCurrentTime()) -
                                     job.start_time().seconds());
  if ((run_clock_.passed(job.id(), by_wall) + pause).count() < deadline_s) return "";
  return "the deadline of " + std::to_string(deadline_s) + " s after the start has passed" +
         (pause.count() > 0 ? " before another attempt" : "");
}

void Scheduler::start_attempt(const v1::Job& job, const std::string& gpus) {
  const AttemptToken token = make_attempt_token();
  const std::optional<v1::Job> started = store_.begin_attempt(job.id(), token.sha256, gpus);
  if (!started) return;
  if (started->pushing()) return begin_push(*started);
  heartbeats_.begin(job.id());
  hold_.launch(job.id());
  log_job(spdlog::level::info, *started,
          fmt::format("attempt {} with {} ranks", started->attempt(), ranks_at_once(*started)));
  try {
    v1::Job launched = *started;
    const std::string output = store_.output_of(job.id());
    if (job.has_sweep()) {
      readmit_sweep(launched, output, paths_);
    } else {
      *launched.mutable_spec() = readmit(job.spec(), output, paths_, copies_of(job));
    }
    if (machine_.memory_declared && runs_here(job)) {
      set_memory_budget(*launched.mutable_spec(), machine_.capacity.memory);
    }
    launchers_.of(launched).launch(launched, token.secret);
  } catch (const ApiError& error) {  // a path has changed since admission
    end(*started, failed({kInvalidInput, -1, "", "", error.what()}));
  } catch (const std::exception& error) {
    end_or_retry(*started, failed({kLaunchFailed, -1, "", "", error.what()}));
  }
}

void Scheduler::remove_expired() {
  for (const std::string& id : store_.expired(kExpiredAtOnce)) {
    remove_job(store_, state_, trash_, id);
    log_job(spdlog::level::info, id, 0, "deleted: its time after the end is over");
  }
}

void Scheduler::end(const v1::Job& job, const Outcome& outcome) {
  const bool pushed = is_remote(job.spec().output().path());
  if (job.attempt() > 0 && outcome.state == v1::Job::CANCELLED) {
    discard_output(job, store_.output_of(job.id()), trash_).remove();
  } else if (job.attempt() > 0 && outcome.state == v1::Job::FAILED) {
    output_of(job).trim();
  }
  if (job.attempt() > 0) launchers_.of(job).clean_up(job);
  if (pushed && outcome.state == v1::Job::SUCCEEDED) keep_pushed_report(job);
  store_.finish(job.id(), outcome);
  if (pushed && outcome.state == v1::Job::SUCCEEDED) {
    output_of(job).discard_committed(trash_).remove();
  }
  forget(job.id());
  run_clock_.forget(job.id());
  log_job(
      spdlog::level::info, job,
      v1::Job::State_Name(outcome.state) + (outcome.error ? ": " + outcome.error->message() : ""));
}

void Scheduler::forget(const std::string& id) {
  heartbeats_.forget(id);
  hold_.forget(id);
  stop_requests_.erase(id);
  notes_.erase(id);
}

}  // namespace dotresize
