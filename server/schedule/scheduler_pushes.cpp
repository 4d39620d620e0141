// The scheduler's handling of remote outputs, between the end of the ranks and the end of the job.

#include <filesystem>

#include "base/failure.h"
#include "job/spec/remote_url.h"
#include "server/launch/outcome.h"
#include "server/log_format.h"
#include "server/schedule/scheduler.h"
#include "server/store/job_result.h"

namespace dotresize {

void Scheduler::begin_push(const v1::Job& job) {
  launchers_.of(job).clean_up(job);
  if (!store_.begin_push(job.id(), job.attempt())) return;
  forget(job.id());
  log_job(spdlog::level::info, job,
          "its output is made, and goes to " + job.spec().output().path());
}

void Scheduler::follow_push(const v1::Job& job) {
  const std::string missed = missed_deadline(job, std::chrono::seconds(0));
  const bool unwanted = job.cancelling() || !missed.empty();
  const PushStatus push = unwanted ? pusher_.stop(job.id()) : pusher_.poll(job);
  if (!push.ended) {
    if (push.news) store_.record_progress(job.id(), job.attempt(), *push.news);
    return;
  }
  if (!push.error) {
    Outcome outcome = succeeded(job);
    if (outcome.result) outcome.result->set_revision(push.revision);
    return end(job, outcome);
  }
  if (job.cancelling()) return end(job, cancelled());
  if (unwanted) return end(job, failed({kDeadlineExceeded, -1, "", kPushPhase, missed}));
  end_unpushed(job, *push.error);
}

void Scheduler::end_unpushed(const v1::Job& job, const TransferError& error) {
  const std::string reason = error.code() + ": " + error.what();
  if (error.may_pass() && !is_last_attempt(job)) {
    if (!requeue(job, "the output was not pushed: " + reason, limits_.retry_delay)) {
      end(job, cancelled());
    }
    return;
  }
  end(job, failed({kPushFailed, -1, "", kPushPhase, reason}));
}

void Scheduler::keep_pushed_report(const v1::Job& job) const {
  const std::string output = store_.output_of(job.id());
  try {
    keep_report(output, reported_in(job, state_.job(job.id()), output));
  } catch (const std::filesystem::filesystem_error& error) {
    log_job(spdlog::level::warn, job, std::string("its report is not kept: ") + error.what());
  }
}

}  // namespace dotresize
