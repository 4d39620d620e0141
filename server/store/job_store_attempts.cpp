// JobStore methods that follow a job from the queue to its end: inputs that are fetched, attempts,
// what they report, the output that is pushed, the notification.

#include <google/protobuf/util/time_util.h>

#include <stdexcept>

#include "job/remote/transfer.h"
#include "job/status/job_rows.h"
#include "server/store/job_schema.h"
#include "server/store/job_store.h"

namespace dotresize {

using google::protobuf::util::TimeUtil;

bool is_launched_attempt(const v1::Job& job, int attempt) {
  return job.attempt() == attempt && is_launched(job.state());
}

void JobStore::record_fetch(const std::string& id, const v1::Progress& progress) {
  transact([&]() DOTRESIZE_REQUIRES(mutex_) {
    std::optional<JobRow> row = find_row(table_, id);
    if (!row || row->job.state() != v1::Job::QUEUED || !row->job.fetching()) return;
    tell(*row, progress);
  });
}

bool JobStore::finish_fetch(const v1::Job& fetched, const std::string& plan) {
  bool done = false;
  transact([&]() DOTRESIZE_REQUIRES(mutex_) {
    std::optional<JobRow> row = find_row(table_, fetched.id());
    if (!row || row->job.state() != v1::Job::QUEUED) return;
    *row->job.mutable_fetched() = fetched.fetched();
    row->job.set_memory_bytes(fetched.memory_bytes());
    row->job.clear_fetching();
    row->job.clear_progress();
    prepare(table_, "INSERT OR REPLACE INTO plans VALUES (?, ?)", row->number, plan).exec();
    insert_into_queue(table_, row->number, row->job);
    save(*row);
    done = true;
  });
  return done;
}

void JobStore::fail_fetch(const std::string& id, const v1::JobError& error) {
  transact([&]() DOTRESIZE_REQUIRES(mutex_) {
    std::optional<JobRow> row = find_row(table_, id);
    if (!row || row->job.state() != v1::Job::QUEUED) return;
    *row->job.mutable_error() = error;
    enter(*row, v1::Job::FAILED, error.message());
  });
}

std::optional<v1::Job> JobStore::begin_attempt(const std::string& id,
                                               const std::string& token_sha256,
                                               const std::string& gpus) {
  std::optional<JobRow> row;
  transact([&]() DOTRESIZE_REQUIRES(mutex_) {
    row = find_row(table_, id);
    if (row && (has_ended(row->job.state()) || row->job.cancelling())) row.reset();
    if (!row) return;
    row->job.set_attempt(row->job.attempt() + 1);
    row->job.clear_progress();
    row->job.clear_retry_time();
    row->job.set_gpus(gpus);
    if (!row->job.has_start_time()) *row->job.mutable_start_time() = TimeUtil::GetCurrentTime();
    prepare(table_, "INSERT INTO attempts (job, number, token_sha256) VALUES (?, ?, ?)",
            row->number, row->job.attempt(), Blob{token_sha256})
        .exec();
    enter(*row, v1::Job::STARTING, "");
    ++uncommitted_.attempts;
  });
  if (!row) return std::nullopt;
  return row->job;
}

void JobStore::confirm_running(const std::string& id, int attempt) {
  if (position(id).state != v1::Job::STARTING) return;
  transact([&]() DOTRESIZE_REQUIRES(mutex_) {
    JobRow row = load(id);
    if (row.job.attempt() != attempt || row.job.state() != v1::Job::STARTING) return;
    enter(row, v1::Job::RUNNING, "");
  });
}

void JobStore::record_progress(const std::string& id, int attempt, const v1::Progress& progress) {
  transact([&]() DOTRESIZE_REQUIRES(mutex_) {
    JobRow row = load(id);
    if (!is_launched_attempt(row.job, attempt)) return;
    tell(row, progress);
  });
}

void JobStore::request_stop(const std::string& id, int attempt, const v1::JobError& reason) {
  transact([&]() DOTRESIZE_REQUIRES(mutex_) {
    JobRow row = load(id);
    if (!is_launched_attempt(row.job, attempt) || row.job.has_stop_reason()) return;
    *row.job.mutable_stop_reason() = reason;
    save(row);
  });
}

void JobStore::record_failure(const std::string& id, int attempt, const v1::JobError& error) {
  transact([&]() DOTRESIZE_REQUIRES(mutex_) {
    const JobRow row = load(id);
    if (!is_launched_attempt(row.job, attempt)) return;
    prepare(table_,
            "UPDATE attempts SET failure = ? WHERE job = ? AND number = ? AND failure IS NULL",
            Blob{error.SerializeAsString()}, row.number, attempt)
        .exec();
  });
}

bool JobStore::begin_push(const std::string& id, int attempt) {
  bool done = false;
  transact([&]() DOTRESIZE_REQUIRES(mutex_) {
    JobRow row = load(id);
    if (!is_launched_attempt(row.job, attempt)) return;
    row.job.set_pushing(true);
    row.job.clear_gpus();
    if (row.job.state() == v1::Job::STARTING) enter(row, v1::Job::RUNNING, "");
    v1::Progress begun = row.job.progress();
    begun.set_phase(kPushPhase);
    tell(row, begun);
    done = true;
  });
  return done;
}

bool JobStore::requeue(const std::string& id, const std::string& reason,
                       std::chrono::milliseconds pause, bool started) {
  bool done = false;
  transact([&]() DOTRESIZE_REQUIRES(mutex_) {
    JobRow row = load(id);
    if (!is_launched(row.job.state())) throw std::logic_error("job " + id + " is not launched");
    if (row.job.cancelling()) return;
    row.job.clear_progress();
    if (!started) row.job.set_unstarted_attempts(row.job.unstarted_attempts() + 1);
    if (pause.count() > 0) {
      *row.job.mutable_retry_time() =
          clock_.now() + TimeUtil::MillisecondsToDuration(pause.count());
    }
    enter(row, v1::Job::QUEUED, reason);
    done = true;
  });
  return done;
}

void JobStore::finish(const std::string& id, const Outcome& outcome) {
  if (!has_ended(outcome.state)) throw std::logic_error("an outcome must be a final state");
  transact([&]() DOTRESIZE_REQUIRES(mutex_) {
    JobRow row = load(id);
    if (has_ended(row.job.state())) throw std::logic_error("job " + id + " has ended already");
    if (outcome.error) *row.job.mutable_error() = *outcome.error;
    if (outcome.result) *row.job.mutable_result() = *outcome.result;
    if (outcome.state == v1::Job::SUCCEEDED) {
      row.job.clear_error();
      v1::Progress& progress = *row.job.mutable_progress();  // whatever the last heartbeat said
      progress.set_junctions_done(progress.junctions_total());
      progress.set_fraction(1.0);
      progress.set_eta_s(0.0);
    }
    enter(row, outcome.state, outcome.error ? outcome.error->message() : "");
  });
}

void JobStore::shift_waits(std::chrono::milliseconds jump) {
  // The clock is never ahead of the stored times, not even for a reader between the two steps.
  if (jump.count() < 0) clock_.follow(jump);
  try {
    transact([&]() DOTRESIZE_REQUIRES(mutex_) {
      for (const std::string& id : ids_of(prepare(table_,
                                                  "SELECT id FROM queue JOIN jobs ON job = number "
                                                  "WHERE retry_ms > 0 AND retry_ms < ?",
                                                  kUnfetchedMs / 2))) {
        JobRow row = load(id);
        if (!row.job.has_retry_time()) continue;
        *row.job.mutable_retry_time() += TimeUtil::MillisecondsToDuration(jump.count());
        insert_into_queue(table_, row.number, row.job);
        save(row);
      }
      prepare(table_, "UPDATE notifications SET due_ms = due_ms + ?", jump.count()).exec();
      prepare(table_, "UPDATE expiries SET at_ms = at_ms + ?", jump.count()).exec();
    });
  } catch (...) {
    if (jump.count() < 0) clock_.follow(-jump);
    throw;
  }
  if (jump.count() > 0) clock_.follow(jump);
}

void JobStore::record_notification(const std::string& id, const v1::Notification& now) {
  transact([&]() DOTRESIZE_REQUIRES(mutex_) {
    std::optional<JobRow> row = find_row(table_, id);
    if (!row || row->job.notification().id() != now.id()) return;
    *row->job.mutable_notification() = now;
    const bool pending = now.state() == v1::Notification::PENDING;
    const auto pause =
        TimeUtil::DurationToMilliseconds(now.next_attempt_time() - now.last_attempt_time());
    notify_at(row->number, pending ? clock_.now_ms() + pause : 0);
    save(*row);
  });
}

void JobStore::put_off_notification(const std::string& id, std::chrono::milliseconds pause) {
  transact([&]() DOTRESIZE_REQUIRES(mutex_) {
    const std::optional<JobRow> row = find_row(table_, id);
    if (!row) return;
    const bool pending = row->job.notification().state() == v1::Notification::PENDING;
    notify_at(row->number, pending ? clock_.now_ms() + pause.count() : 0);
  });
}

}  // namespace dotresize
