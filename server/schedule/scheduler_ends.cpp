// Scheduler methods for the ends of attempts and jobs: outcomes, further attempts, and the push of
// an output between the end of the ranks and the end of the job.

#include <fmt/format.h>
#include <google/protobuf/util/time_util.h>

#include <algorithm>
#include <filesystem>

#include "base/errors.h"
#include "base/process/program.h"
#include "job/spec/spec_paths.h"
#include "job/spec/validate_spec.h"
#include "server/access/request_budget.h"
#include "server/common/api_error.h"
#include "server/common/log_format.h"
#include "server/launch/attempt.h"
#include "server/launch/outcome.h"
#include "server/schedule/scheduler.h"
#include "server/store/job_output.h"

namespace dotresize {
namespace {

constexpr std::chrono::seconds kLongestRetryDelay{3600};

/// Number of the job's attempts that had processes.
int started_attempts(const v1::Job& job) { return job.attempt() - job.unstarted_attempts(); }

/// Key of a run in RunClock: a job that was resumed has another start.
std::string run_key(const v1::Job& job) {
  return fmt::format("{}@{}", job.id(), job.start_time().seconds());
}

}  // namespace

Outcome Scheduler::failed(const Failure& failure) {
  return {v1::Job::FAILED, to_job_error(failure), std::nullopt};
}

JobOutput Scheduler::output_of(const v1::Job& job) const {
  return JobOutput(context_.store.output_of(job.id()), job.id());
}

Outcome Scheduler::succeeded(const v1::Job& job) {
  const auto without_report = [&](const std::exception& error) {
    return failed({kRankFailed, -1, "", job.progress().phase(),
                   std::string("the job succeeded but left no report: ") + error.what()});
  };
  try {
    const BackgroundBudget budget;
    const std::string output = context_.store.output_of(job.id());
    return {v1::Job::SUCCEEDED, std::nullopt,
            job.has_sweep() ? sweep_result_of(job, output, run_time(job)) : result_of(job, output)};
  } catch (const InputError& error) {
    return without_report(error);
  } catch (const ApiError& error) {  // a report that costs too much to read
    return without_report(error);
  }
}

Outcome Scheduler::outcome_of(const v1::Job& job, const AttemptStatus& status) {
  const bool here = runs_here(job);
  const bool ended_well = status.exit.exit_code == kExitOk;
  // With an output of this attempt the job has succeeded, however its processes ended.
  if (output_of(job).is_committed(job.attempt()) || (ended_well && here)) return succeeded(job);
  if (job.cancelling()) return kCancelled;
  if (job.has_stop_reason()) return {v1::Job::FAILED, job.stop_reason(), std::nullopt};
  if (status.failure) return failed(*status.failure);
  Launcher& launcher = context_.launchers.of(job);
  const FailureEvidence evidence = {status.exit,
                                    context_.store.reported_failure(job.id(), job.attempt()),
                                    launcher.log_tail(job),
                                    job.progress().phase(),
                                    here && ranks_of(job.spec()) == 1,
                                    launcher.starter(),
                                    job.has_sweep()};
  v1::JobError error = explain_failure(evidence);
  if (here && job.state() == v1::Job::STARTING && ended_without_a_word(evidence)) {
    if (const Verdict worker = check_worker(); !worker) {
      return failed({kLaunchFailed, -1, "", "", worker.fault()});
    }
  }
  // srun exits with 0 if it could not start the ranks.
  if (ended_well && !evidence.reported) error.set_code(kLost);
  return {v1::Job::FAILED, error, std::nullopt};
}

std::chrono::milliseconds Scheduler::run_time(const v1::Job& job) {
  using google::protobuf::util::TimeUtil;
  const auto by_wall = TimeUtil::GetCurrentTime() - job.start_time();
  return run_clock_.passed(run_key(job),
                           std::chrono::milliseconds(TimeUtil::DurationToMilliseconds(by_wall)));
}

Verdict Scheduler::check_deadline(const v1::Job& job, std::chrono::seconds pause) {
  if (!job.options().has_deadline_s() || !job.has_start_time()) return {};
  const int64_t deadline_s = job.options().deadline_s();
  if (run_time(job) + pause < std::chrono::seconds(deadline_s)) return {};
  return Verdict::with_fault("the deadline of " + std::to_string(deadline_s) +
                             " s after the start has passed" +
                             (pause.count() > 0 ? " before another attempt" : ""));
}

void Scheduler::end_or_retry(const v1::Job& job, const Outcome& outcome) {
  if (outcome.state == v1::Job::SUCCEEDED && is_remote(job.spec().output().path())) {
    return begin_push(job);
  }
  if (outcome.state != v1::Job::FAILED) return end(job, outcome);
  const std::string& reason = outcome.error->message();
  const Remedy remedy = remedy_for(*outcome.error);
  if (remedy == Remedy::kHoldQueue) {
    hold_.begin(reason);
    if (requeue(job, reason, std::chrono::seconds(0), /*started=*/false)) return;
    return end(job, kCancelled);
  }
  hold_.see(job.id(), /*runs=*/true);  // it has run
  if (remedy == Remedy::kNone || limits_.max_attempts == 1) return end(job, outcome);
  const int started = started_attempts(job);
  if (started >= limits_.max_attempts) {
    Outcome last = outcome;
    last.error->set_message(reason + "; the last attempt of " +
                            std::to_string(limits_.max_attempts));
    return end(job, last);
  }
  const int doublings = std::min(started - 1, 12);
  const auto pause = std::min(limits_.retry_delay * (1 << doublings), kLongestRetryDelay);
  if (const Verdict deadline = check_deadline(job, pause); !deadline) {
    return end(job, failed({kDeadlineExceeded, -1, "", "", reason + "; " + deadline.fault()}));
  }
  if (!requeue(job, reason, pause)) end(job, kCancelled);
}

bool Scheduler::requeue(const v1::Job& job, const std::string& reason, std::chrono::seconds pause,
                        bool started) {
  output_of(job).trim();
  context_.launchers.of(job).clean_up(job);
  if (!context_.store.requeue(job.id(), reason, pause, started)) return false;
  forget(job.id());
  log_job(spdlog::level::warn, job,
          fmt::format("queued again, for in {} s at the earliest: {}", pause.count(), reason));
  return true;
}

void Scheduler::begin_push(const v1::Job& job) {
  context_.launchers.of(job).clean_up(job);
  if (!context_.store.begin_push(job.id(), job.attempt())) return;
  forget(job.id());
  log_job(spdlog::level::info, job,
          "its output is complete and is being pushed to " + job.spec().output().path());
}

void Scheduler::follow_push(const v1::Job& job) {
  const Verdict deadline = check_deadline(job, std::chrono::seconds(0));
  const bool unwanted = job.cancelling() || !deadline;
  const PushStatus push = unwanted ? pusher_.stop(job.id()) : pusher_.poll(job, rights_of(job));
  if (!push.ended) {
    if (push.news) context_.store.record_progress(job.id(), job.attempt(), *push.news);
    return;
  }
  if (!push.error) {
    Outcome outcome = succeeded(job);
    if (outcome.result) outcome.result->set_revision(push.revision);
    return end(job, outcome);
  }
  if (job.cancelling()) return end(job, kCancelled);
  if (!deadline) {
    return end(job, failed({kDeadlineExceeded, -1, "", kPushPhase, deadline.fault()}));
  }
  const std::string reason = push.error->code() + ": " + push.error->what();
  if (!push.error->may_pass() || started_attempts(job) >= limits_.max_attempts) {
    return end(job, failed({kPushFailed, -1, "", kPushPhase, reason}));
  }
  if (!requeue(job, "the output was not pushed: " + reason, limits_.retry_delay)) {
    end(job, kCancelled);
  }
}

void Scheduler::end(const v1::Job& job, const Outcome& outcome) {
  const bool pushed = is_remote(job.spec().output().path());
  if (job.attempt() > 0 && outcome.state == v1::Job::CANCELLED) {
    discard_output(job, context_.store.output_of(job.id()), context_.trash).remove();
  } else if (job.attempt() > 0 && outcome.state == v1::Job::FAILED) {
    output_of(job).trim();
  }
  if (job.attempt() > 0) context_.launchers.of(job).clean_up(job);
  if (pushed && outcome.state == v1::Job::SUCCEEDED) {
    // The report stays in the state directory when the output is removed below.
    const std::string output = context_.store.output_of(job.id());
    try {
      keep_report(output, reported_in(job, context_.state.job(job.id()), output));
    } catch (const std::system_error& error) {
      log_job(spdlog::level::warn, job,
              std::string("its report could not be kept: ") + error.what());
    }
  }
  context_.store.finish(job.id(), outcome);
  if (pushed && outcome.state == v1::Job::SUCCEEDED) {
    output_of(job).discard_committed(context_.trash).remove();
  }
  forget(job.id());
  run_clock_.forget(run_key(job));
  log_job(
      spdlog::level::info, job,
      v1::Job::State_Name(outcome.state) + (outcome.error ? ": " + outcome.error->message() : ""));
}

}  // namespace dotresize
