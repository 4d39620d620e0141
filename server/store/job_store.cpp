#include "server/store/job_store.h"

#include <SQLiteCpp/Transaction.h>
#include <google/protobuf/util/message_differencer.h>
#include <google/protobuf/util/time_util.h>

#include <algorithm>
#include <array>
#include <memory>
#include <stdexcept>
#include <utility>

#include "base/failure.h"
#include "job/spec/default_method.h"
#include "job/spec/job_state.h"
#include "job/spec/remote_url.h"
#include "job/spec/spec_paths.h"
#include "server/api_error.h"
#include "server/launch/outcome.h"

namespace dotresize {
namespace {

using google::protobuf::util::TimeUtil;

/// Sets the progress of a succeeded job to complete, whatever its last heartbeat said.
void complete(v1::Progress& progress) {
  progress.set_junctions_done(progress.junctions_total());
  progress.set_fraction(1.0);
  progress.set_eta_s(0.0);
}

/// Returns the code for statistics: "OTHER" for unknown ones, because ranks may report any code.
std::string counted_code(const std::string& code) {
  constexpr std::array<const char*, 9> kKnown = {
      "",    kInvalidInput,     kRankFailed,  kRankKilled, kLaunchFailed,
      kLost, kDeadlineExceeded, kFetchFailed, kPushFailed};
  return std::ranges::find(kKnown, code) != kKnown.end() ? code : "OTHER";
}

}  // namespace

bool JobStore::is_launched_attempt(const v1::Job& job, int attempt) {
  return job.attempt() == attempt && is_launched(job.state());
}

void JobTotals::add(const JobTotals& more) {
  created += more.created;
  attempts += more.attempts;
  events += more.events;
  for (const auto& [end, count] : more.ended) ended[end] += count;
  last_success = std::max(last_success, more.last_success);
}

JobStore::JobStore(const std::filesystem::path& database, int max_queued)
    : max_queued_(max_queued),
      acknowledged_(database.string() + ".acknowledged"),
      table_(database),
      reader_(database, JobTable::Reader()),
      lister_(database, JobTable::Reader()) {
  totals_.last_success = table_.last_success();
  acknowledged_.require_at_most(table_.last_number());
}

void JobStore::transact(const std::function<void()>& body) {
  {
    const std::lock_guard lock(mutex_);
    uncommitted_ = {};
    uncommitted_changes_.clear();
    SQLite::Transaction transaction(table_.database(), SQLite::TransactionBehavior::IMMEDIATE);
    body();
    transaction.commit();
    totals_.add(uncommitted_);
    recent_.add(std::exchange(uncommitted_changes_, {}));
  }
  changes_.notify();
}

JobRow JobStore::load(const std::string& id) {
  std::optional<JobRow> row = table_.find(id);
  if (!row) throw job_not_found(id);
  return *row;
}

JobRow JobStore::read(const std::string& id) {
  const std::lock_guard lock(read_mutex_);
  std::optional<JobRow> row = reader_.find(id);
  if (!row) throw job_not_found(id);
  return std::move(*row);
}

void JobStore::expire(const JobRow& row) {
  if (!row.job.options().has_ttl_seconds_after_finished()) return;
  const int64_t ttl_ms = int64_t{1000} * row.job.options().ttl_seconds_after_finished();
  table_.expire(row.number, TimeUtil::TimestampToMilliseconds(row.job.end_time()) + ttl_ms);
}

void JobStore::notify(JobRow& row, bool ended) {
  if (!row.job.options().has_notify()) return;
  row.job.clear_notification();
  table_.notify_at(row.number, 0);
  if (!ended) return;
  const auto now = TimeUtil::GetCurrentTime();
  v1::Notification& notification = *row.job.mutable_notification();
  notification.set_state(v1::Notification::PENDING);
  notification.set_id(row.job.id() + "." + std::to_string(row.last_event + 1));
  *notification.mutable_next_attempt_time() = now;
  table_.notify_at(row.number, TimeUtil::TimestampToMilliseconds(now));
}

void JobStore::append(JobRow& row, v1::Event event) {
  table_.append(row, std::move(event));
  ++uncommitted_.events;
}

void JobStore::save(JobRow& row) {
  table_.save(row);
  uncommitted_changes_.push_back({.number = row.number,
                                  .before = std::exchange(row.stored_state, row.job.state()),
                                  .job = std::make_shared<v1::Job>(basic_view(row.job))});
}

void JobStore::enter(JobRow& row, v1::Job::State state, const std::string& reason) {
  row.job.set_state(state);
  if (state != v1::Job::RUNNING) row.job.clear_stop_reason();  // belongs to the ended attempt
  if (state == v1::Job::QUEUED) {
    row.job.clear_gpus();
    table_.enqueue(row);
  } else {
    table_.dequeue(row.number);
  }
  if (has_ended(state)) {
    row.job.clear_fetching();
    row.job.clear_pushing();
    *row.job.mutable_end_time() = TimeUtil::GetCurrentTime();
    expire(row);
    row.job.set_cancelling(false);
    row.job.clear_retry_time();
    table_.release(row.number);
    ++uncommitted_.ended[{state, counted_code(row.job.error().code())}];
    if (state == v1::Job::SUCCEEDED) uncommitted_.last_success = unix_time(row.job.end_time());
  }
  notify(row, has_ended(state));
  v1::Event event;
  event.mutable_state_change()->set_state(state);
  event.mutable_state_change()->set_attempt(row.job.attempt());
  event.mutable_state_change()->set_reason(reason);
  append(row, std::move(event));
  save(row);
}

namespace {

/// Returns true if two specs are equal once their methods are completed with defaults.
bool same_spec(v1::JobSpec one, v1::JobSpec other) {
  complete_method(*one.mutable_method());
  complete_method(*other.mutable_method());
  return google::protobuf::util::MessageDifferencer::Equals(one, other);
}

}  // namespace

std::optional<v1::Job> JobStore::request_match(const std::string& request_id,
                                               const v1::JobSpec& spec, const std::string& owner,
                                               const v1::JobOptions& options,
                                               const std::optional<v1::SweepSpec>& sweep) {
  if (request_id.empty()) return std::nullopt;
  std::optional<v1::Job> job = table_.find_request(request_id);
  if (job && job->owner() != owner) {
    throw ApiError(grpc::StatusCode::ALREADY_EXISTS, "REQUEST_ID_REUSED",
                   "request_id '" + request_id + "' belongs to a job of another owner",
                   {{"request_id", request_id}});
  }
  using google::protobuf::util::MessageDifferencer;
  if (job &&
      !(same_spec(job->spec(), spec) && MessageDifferencer::Equals(job->options(), options) &&
        job->has_sweep() == sweep.has_value() &&
        (!sweep || MessageDifferencer::Equals(job->sweep(), *sweep)))) {
    throw ApiError(
        grpc::StatusCode::ALREADY_EXISTS, "REQUEST_ID_REUSED",
        "request_id '" + request_id + "' belongs to job " + job->id() +
            ", which has another spec or other options; use a new request_id for a new job",
        {{"id", job->id()}, {"request_id", request_id}});
  }
  return job;
}

std::optional<v1::Job> JobStore::find_request(const std::string& request_id,
                                              const v1::JobSpec& spec, const std::string& owner,
                                              const v1::JobOptions& options,
                                              const std::optional<v1::SweepSpec>& sweep) {
  const std::lock_guard lock(mutex_);
  return request_match(request_id, spec, owner, options, sweep);
}

void JobStore::claim(int64_t number, const std::vector<PathClaim>& claims) {
  if (const auto conflict = table_.find_conflict(number, claims)) {
    const std::string& field = conflict->claim.field;
    throw ApiError(grpc::StatusCode::FAILED_PRECONDITION, "OUTPUT_IN_USE",
                   field + ": " + conflict->claim.path + " collides with " + conflict->path +
                       ", which job " + conflict->id + " uses, and that has not ended",
                   {{"id", conflict->id}, {"field", field}});
  }
  table_.claim(number, claims);
}

void JobStore::refuse_full_queue(const std::string& owner) {
  const auto refuse = [](int count, const std::string& whose) {
    throw try_again(
        grpc::StatusCode::RESOURCE_EXHAUSTED, "QUEUE_FULL",
        std::to_string(count) + " jobs" + whose + " are waiting already; try again later",
        std::chrono::seconds(30));
  };
  if (table_.count_queued(std::nullopt) >= kMaxQueuedJobs) refuse(kMaxQueuedJobs, "");
  if (table_.count_queued(owner) >= max_queued_) {
    refuse(max_queued_, owner.empty() ? "" : " of '" + owner + "'");
  }
}

v1::Job JobStore::create(const NewJob& job) {
  JobRow row;
  transact([&] {
    if (std::optional<v1::Job> earlier =
            request_match(job.request_id, job.spec, job.owner, job.options, job.sweep)) {
      row.job = *earlier;
      return;
    }
    refuse_full_queue(job.owner);
    row = table_.insert(job);
    claim(row.number, job.claims);
    enter(row, v1::Job::QUEUED, "");
    ++uncommitted_.created;
  });
  if (row.number > 0) acknowledged_.put(row.number);
  return row.job;
}

v1::Job JobStore::get(const std::string& id) { return read(id).job; }

std::optional<v1::Job> JobStore::find(const std::string& id) {
  const std::lock_guard lock(read_mutex_);
  std::optional<JobRow> row = reader_.find(id);
  if (!row) return std::nullopt;
  return std::move(row->job);
}

std::vector<std::string> JobStore::due_notifications(int limit) {
  const std::lock_guard lock(read_mutex_);
  return reader_.due_notifications(limit);
}

void JobStore::record_notification(const std::string& id, const v1::Notification& now) {
  transact([&] {
    std::optional<JobRow> row = table_.find(id);
    if (!row || row->job.notification().id() != now.id()) return;
    *row->job.mutable_notification() = now;
    const bool pending = now.state() == v1::Notification::PENDING;
    table_.notify_at(row->number,
                     pending ? TimeUtil::TimestampToMilliseconds(now.next_attempt_time()) : 0);
    save(*row);
  });
}

void JobStore::put_off_notification(const std::string& id, std::chrono::milliseconds pause) {
  transact([&] {
    const std::optional<JobRow> row = table_.find(id);
    if (!row) return;
    const bool pending = row->job.notification().state() == v1::Notification::PENDING;
    const auto now = TimeUtil::TimestampToMilliseconds(TimeUtil::GetCurrentTime());
    table_.notify_at(row->number, pending ? now + pause.count() : 0);
  });
}

JobTotals JobStore::totals() {
  const std::lock_guard lock(mutex_);
  return totals_;
}

std::map<v1::Job::State, int64_t> JobStore::counts() {
  const std::lock_guard lock(list_mutex_);
  return lister_.counts();
}

std::optional<google::protobuf::Timestamp> JobStore::head_queued_since() {
  const std::lock_guard lock(read_mutex_);
  return reader_.head_queued_since();
}

std::string JobStore::fault() {
  try {
    const std::lock_guard lock(mutex_);
    const SQLite::Transaction transaction(table_.database(),
                                          SQLite::TransactionBehavior::IMMEDIATE);
    return "";
  } catch (const SQLite::Exception& error) {
    return error.what();
  }
}

std::string JobStore::output_of(const std::string& id) { return read(id).output; }

std::string JobStore::plan_of(const std::string& id) {
  const std::lock_guard lock(read_mutex_);
  return reader_.plan(id);
}

JobPage JobStore::list(const JobQuery& query) {
  const std::lock_guard lock(list_mutex_);
  return lister_.list(query);
}

JobListing JobStore::listing(const JobQuery& query) {
  std::unique_lock writing(mutex_, std::defer_lock);
  std::unique_lock reading(list_mutex_, std::defer_lock);
  std::lock(writing, reading);
  const SQLite::Transaction snapshot(lister_.database());
  lister_.fix_snapshot();
  const int64_t last_change = recent_.last();
  writing.unlock();  // reading may take long
  return {lister_.list(query), last_change};
}

JobPosition JobStore::position(const std::string& id) {
  const std::lock_guard lock(read_mutex_);
  const std::optional<JobPosition> position = reader_.position(id);
  if (!position) throw job_not_found(id);
  return *position;
}

std::vector<v1::Event> JobStore::events_after(const std::string& id, int64_t seq, int limit) {
  const JobPosition job = position(id);
  const std::lock_guard lock(read_mutex_);
  return reader_.events_after(job.number, seq, limit);
}

v1::Job JobStore::request_cancel(const std::string& id, v1::Job::State* before,
                                 const Step& before_commit) {
  JobRow row;
  transact([&] {
    row = load(id);
    if (before != nullptr) *before = row.job.state();
    if (row.job.state() == v1::Job::QUEUED) {
      enter(row, v1::Job::CANCELLED, "cancelled while queued");
      before_commit(row.job, row.output);
    } else if (is_launched(row.job.state()) && !row.job.cancelling()) {
      row.job.set_cancelling(true);
      save(row);
    }
  });
  return row.job;
}

v1::Job JobStore::resume(const std::string& id, const std::vector<PathClaim>& claims,
                         const Step& before_commit, Resumption way) {
  JobRow row;
  transact([&] {
    row = load(id);
    const v1::Job::State state = row.job.state();
    if (state != v1::Job::FAILED && state != v1::Job::CANCELLED) {
      throw ApiError(grpc::StatusCode::FAILED_PRECONDITION, "JOB_NOT_RESUMABLE",
                     "job " + id + " is " + v1::Job::State_Name(state) +
                         "; only a failed or cancelled job can be resumed",
                     {{"id", id}});
    }
    if (row.job.error().code() == kDamagedRecord) {
      throw ApiError(grpc::StatusCode::FAILED_PRECONDITION, "JOB_NOT_RESUMABLE",
                     "the record of job " + id + " is damaged; submit it anew", {{"id", id}});
    }
    refuse_full_queue(row.job.owner());
    claim(row.number, claims);
    row.job.clear_error();
    row.job.clear_end_time();
    row.job.clear_start_time();
    table_.expire(row.number, 0);
    row.job.clear_progress();
    switch (way) {
      case Resumption::kPush:
        row.job.set_pushing(true);
        break;
      case Resumption::kAfresh:
        row.job.clear_fetched();  // would pin the Hub commits
        [[fallthrough]];
      case Resumption::kGoOn:
        if (has_remote_paths(row.job.spec())) row.job.set_fetching(true);
    }
    before_commit(row.job, row.output);
    enter(row, v1::Job::QUEUED, "resumed");
  });
  return row.job;
}

void JobStore::remove(const std::string& id, const Step& before_commit) {
  transact([&] {
    const JobRow row = load(id);
    if (!has_ended(row.job.state())) {
      throw ApiError(grpc::StatusCode::FAILED_PRECONDITION, "JOB_NOT_ENDED",
                     "job " + id + " is " + v1::Job::State_Name(row.job.state()) +
                         "; cancel it and wait for its end first",
                     {{"id", id}});
    }
    table_.erase(row);
    uncommitted_changes_.push_back({.number = row.number,
                                    .before = row.job.state(),
                                    .deleted = true,
                                    .job = std::make_shared<v1::Job>(basic_view(row.job))});
    before_commit(row.job, row.output);
  });
}

std::vector<QueuedJob> JobStore::queued(int limit) {
  const std::lock_guard lock(mutex_);
  return table_.queued(limit);
}

std::vector<std::string> JobStore::queue(int limit) {
  const std::lock_guard lock(list_mutex_);
  return lister_.queue(limit);
}

int JobStore::queue_position(const std::string& id) {
  const JobPosition job = position(id);
  const std::lock_guard lock(read_mutex_);
  return reader_.queue_position(job.number);
}

std::vector<std::string> JobStore::expired(int limit) {
  const std::lock_guard lock(read_mutex_);
  return reader_.expired(limit);
}

std::vector<v1::Job> JobStore::launched() {
  const std::lock_guard lock(mutex_);
  return table_.in_states({v1::Job::STARTING, v1::Job::RUNNING});
}

std::optional<v1::Job> JobStore::begin_attempt(const std::string& id,
                                               const std::string& token_sha256,
                                               const std::string& gpus) {
  std::optional<JobRow> row;
  transact([&] {
    row = table_.find(id);
    if (row && (has_ended(row->job.state()) || row->job.cancelling())) row.reset();
    if (!row) return;
    row->job.set_attempt(row->job.attempt() + 1);
    row->job.clear_progress();
    row->job.clear_retry_time();
    row->job.set_gpus(gpus);
    if (!row->job.has_start_time()) *row->job.mutable_start_time() = TimeUtil::GetCurrentTime();
    table_.insert_attempt(*row, token_sha256);
    enter(*row, v1::Job::STARTING, "");
    ++uncommitted_.attempts;
  });
  if (!row) return std::nullopt;
  return row->job;
}

void JobStore::request_stop(const std::string& id, int attempt, const v1::JobError& reason) {
  transact([&] {
    JobRow row = load(id);
    if (!is_launched_attempt(row.job, attempt) || row.job.has_stop_reason()) return;
    *row.job.mutable_stop_reason() = reason;
    save(row);
  });
}

void JobStore::finish(const std::string& id, const Outcome& outcome) {
  if (!has_ended(outcome.state)) throw std::logic_error("an outcome must be a final state");
  transact([&] {
    JobRow row = load(id);
    if (has_ended(row.job.state())) throw std::logic_error("job " + id + " has ended already");
    if (outcome.error) *row.job.mutable_error() = *outcome.error;
    if (outcome.state == v1::Job::SUCCEEDED) row.job.clear_error();
    if (outcome.result) *row.job.mutable_result() = *outcome.result;
    if (outcome.state == v1::Job::SUCCEEDED) complete(*row.job.mutable_progress());
    enter(row, outcome.state, outcome.error ? outcome.error->message() : "");
  });
}

bool JobStore::requeue(const std::string& id, const std::string& reason,
                       std::chrono::milliseconds pause, bool started) {
  bool done = false;
  transact([&] {
    JobRow row = load(id);
    if (!is_launched(row.job.state())) throw std::logic_error("job " + id + " is not launched");
    if (row.job.cancelling()) return;
    row.job.clear_progress();
    if (!started) row.job.set_unstarted_attempts(row.job.unstarted_attempts() + 1);
    if (pause.count() > 0) {
      *row.job.mutable_retry_time() =
          TimeUtil::GetCurrentTime() + TimeUtil::MillisecondsToDuration(pause.count());
    }
    enter(row, v1::Job::QUEUED, reason);
    done = true;
  });
  return done;
}

void JobStore::shift_retries(std::chrono::milliseconds jump) {
  transact([&] { table_.shift_retries(jump.count()); });
}

std::string JobStore::token_sha256(const std::string& id, int attempt) {
  const std::lock_guard lock(read_mutex_);
  return reader_.token_sha256(id, attempt);
}

bool JobStore::is_wanted(const std::string& id, int attempt) {
  const v1::Job job = read(id).job;
  return is_launched_attempt(job, attempt) && !job.cancelling() && !job.has_stop_reason();
}

void JobStore::confirm_running(const std::string& id, int attempt) {
  if (position(id).state != v1::Job::STARTING) return;
  transact([&] {
    JobRow row = load(id);
    if (row.job.attempt() != attempt || row.job.state() != v1::Job::STARTING) return;
    enter(row, v1::Job::RUNNING, "");
  });
}

void JobStore::record_progress(const std::string& id, int attempt, const v1::Progress& progress) {
  transact([&] {
    JobRow row = load(id);
    if (!is_launched_attempt(row.job, attempt)) return;
    tell(row, progress);
    save(row);
  });
}

void JobStore::tell(JobRow& row, const v1::Progress& progress) {
  *row.job.mutable_progress() = progress;
  v1::Event event;
  *event.mutable_progress() = progress;
  append(row, std::move(event));
}

void JobStore::record_failure(const std::string& id, int attempt, const v1::JobError& error) {
  transact([&] { table_.save_failure(load(id), attempt, error); });
}

std::optional<v1::JobError> JobStore::reported_failure(const std::string& id, int attempt) {
  const std::lock_guard lock(mutex_);
  return table_.failure(load(id), attempt);
}

}  // namespace dotresize
