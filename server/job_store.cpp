#include "server/job_store.h"

#include <SQLiteCpp/Column.h>
#include <SQLiteCpp/Statement.h>
#include <SQLiteCpp/Transaction.h>
#include <google/protobuf/util/message_differencer.h>
#include <google/protobuf/util/time_util.h>

#include <stdexcept>

#include "job/spec/job_state.h"
#include "server/api_error.h"
#include "server/attempt_token.h"
#include "server/database.h"

namespace dotresize {
namespace {

using google::protobuf::util::TimeUtil;

constexpr int kMaxQueuedJobs = 10000;
// Keeps an answer below the 4 MiB that clients accept by default.
constexpr size_t kMaxPageBytes = 2u << 20;

constexpr char kNotEnded[] = "state IN (1, 2, 3)";
static_assert(v1::Job::QUEUED == 1 && v1::Job::STARTING == 2 && v1::Job::RUNNING == 3);

template <class Message>
Message parsed(const SQLite::Column& column) {
  Message message;
  if (!message.ParseFromArray(column.getBlob(), column.getBytes())) {
    throw std::runtime_error(std::string("the job table holds a damaged ") + column.getName());
  }
  return message;
}

void bind_blob(SQLite::Statement& statement, int index, const std::string& bytes) {
  statement.bind(index, bytes.data(), static_cast<int>(bytes.size()));
}

/// A job that has succeeded is done, whatever its last heartbeat said.
void complete(v1::Progress& progress) {
  progress.set_junctions_done(progress.junctions_total());
  progress.set_fraction(1.0);
  progress.set_eta_s(0.0);
}

}  // namespace

JobStore::JobStore(const std::filesystem::path& database) : database_(open_database(database)) {}

void JobStore::transact(const std::function<void()>& body) {
  {
    const std::lock_guard lock(mutex_);
    SQLite::Transaction transaction(database_);
    body();
    transaction.commit();
  }
  changes_.notify();
}

std::optional<JobStore::Row> JobStore::load(const std::string& id) {
  SQLite::Statement query(database_, "SELECT number, last_event, body FROM jobs WHERE id = ?");
  query.bind(1, id);
  if (!query.executeStep()) return std::nullopt;
  return Row{query.getColumn(0).getInt64(), query.getColumn(1).getInt64(),
             parsed<v1::Job>(query.getColumn(2))};
}

JobStore::Row JobStore::load_existing(const std::string& id) {
  std::optional<Row> row = load(id);
  if (!row) throw job_not_found(id);
  return *row;
}

std::vector<v1::Job> JobStore::jobs_in(const std::string& condition) {
  const std::lock_guard lock(mutex_);
  SQLite::Statement query(database_, "SELECT body FROM jobs WHERE " + condition);
  std::vector<v1::Job> jobs;
  while (query.executeStep()) jobs.push_back(parsed<v1::Job>(query.getColumn(0)));
  return jobs;
}

void JobStore::save(const Row& row) {
  SQLite::Statement update(database_,
                           "UPDATE jobs SET state = ?, last_event = ?, body = ? WHERE number = ?");
  update.bind(1, row.job.state());
  update.bind(2, row.last_event);
  bind_blob(update, 3, row.job.SerializeAsString());
  update.bind(4, row.number);
  update.exec();
}

void JobStore::append(Row& row, v1::Event event) {
  event.set_seq(++row.last_event);
  *event.mutable_time() = TimeUtil::GetCurrentTime();
  SQLite::Statement insert_event(database_, "INSERT INTO events VALUES (?, ?, ?)");
  insert_event.bind(1, row.number);
  insert_event.bind(2, row.last_event);
  bind_blob(insert_event, 3, event.SerializeAsString());
  insert_event.exec();
}

void JobStore::enter(Row& row, v1::Job::State state, const std::string& reason) {
  row.job.set_state(state);
  if (has_ended(state)) {
    *row.job.mutable_end_time() = TimeUtil::GetCurrentTime();
    row.job.set_cancelling(false);
  }
  v1::Event event;
  event.mutable_state_change()->set_state(state);
  event.mutable_state_change()->set_attempt(row.job.attempt());
  event.mutable_state_change()->set_reason(reason);
  append(row, std::move(event));
  save(row);
}

std::optional<v1::Job> JobStore::request_match(const std::string& request_id,
                                               const v1::JobSpec& spec) {
  if (request_id.empty()) return std::nullopt;
  SQLite::Statement query(database_, "SELECT body FROM jobs WHERE request_id = ?");
  query.bind(1, request_id);
  if (!query.executeStep()) return std::nullopt;
  v1::Job job = parsed<v1::Job>(query.getColumn(0));
  if (!google::protobuf::util::MessageDifferencer::Equals(job.spec(), spec)) {
    throw ApiError(grpc::StatusCode::ALREADY_EXISTS, "REQUEST_ID_REUSED",
                   "request_id '" + request_id + "' belongs to job " + job.id() +
                       ", which has another spec; use a new request_id for a new job",
                   {{"id", job.id()}, {"request_id", request_id}});
  }
  return job;
}

std::optional<v1::Job> JobStore::find_request(const std::string& request_id,
                                              const v1::JobSpec& spec) {
  const std::lock_guard lock(mutex_);
  return request_match(request_id, spec);
}

void JobStore::refuse_busy_output(const std::string& output) {
  SQLite::Statement query(database_,
                          std::string("SELECT id FROM jobs WHERE output = ? AND ") + kNotEnded);
  query.bind(1, output);
  if (!query.executeStep()) return;
  const std::string id = query.getColumn(0).getString();
  throw ApiError(grpc::StatusCode::FAILED_PRECONDITION, "OUTPUT_IN_USE",
                 "output.path: job " + id + " has not ended and writes to the same " + output,
                 {{"id", id}, {"field", "output.path"}});
}

void JobStore::refuse_full_queue() {
  SQLite::Statement query(database_, "SELECT count(*) FROM jobs WHERE state = ?");
  query.bind(1, v1::Job::QUEUED);
  query.executeStep();
  if (query.getColumn(0).getInt() < kMaxQueuedJobs) return;
  throw ApiError(grpc::StatusCode::RESOURCE_EXHAUSTED, "QUEUE_FULL",
                 std::to_string(kMaxQueuedJobs) + " jobs are waiting already; try again later");
}

JobStore::Row JobStore::insert(const NewJob& job) {
  Row row;
  row.job.set_id(make_job_id());
  *row.job.mutable_spec() = job.spec;
  row.job.set_request_id(job.request_id);
  row.job.set_state(v1::Job::QUEUED);
  *row.job.mutable_create_time() = TimeUtil::GetCurrentTime();

  SQLite::Statement insert_job(database_,
                               "INSERT INTO jobs (id, request_id, name, state, output, last_event, "
                               "body) VALUES (?, ?, ?, ?, ?, 0, ?)");
  insert_job.bind(1, row.job.id());
  if (!job.request_id.empty()) insert_job.bind(2, job.request_id);
  insert_job.bind(3, job.spec.name());
  insert_job.bind(4, v1::Job::QUEUED);
  insert_job.bind(5, job.output);
  bind_blob(insert_job, 6, row.job.SerializeAsString());
  insert_job.exec();
  row.number = database_.getLastInsertRowid();
  return row;
}

v1::Job JobStore::create(const NewJob& job) {
  Row row;
  transact([&] {
    if (std::optional<v1::Job> earlier = request_match(job.request_id, job.spec)) {
      row.job = *earlier;
      return;
    }
    refuse_busy_output(job.output);
    refuse_full_queue();
    row = insert(job);
    enter(row, v1::Job::QUEUED, "");
  });
  return row.job;
}

v1::Job JobStore::get(const std::string& id) {
  const std::lock_guard lock(mutex_);
  return load_existing(id).job;
}

JobPage JobStore::list(const JobQuery& query) {
  std::string sql = "SELECT number, body FROM jobs WHERE (?1 = 0 OR number < ?1)";
  if (!query.name.empty()) sql += " AND name = ?2";
  if (!query.states.empty()) {
    std::string states;
    for (const v1::Job::State state : query.states) {
      states += (states.empty() ? "" : ", ") + std::to_string(static_cast<int>(state));
    }
    sql += " AND state IN (" + states + ")";
  }
  const std::lock_guard lock(mutex_);
  SQLite::Statement select(database_, sql + " ORDER BY number DESC");
  select.bind(1, query.before);
  if (!query.name.empty()) select.bind(2, query.name);

  JobPage page;
  int64_t last = 0;
  size_t bytes = 0;
  while (select.executeStep()) {
    bytes += static_cast<size_t>(select.getColumn(1).getBytes());
    const bool full = static_cast<int>(page.jobs.size()) == query.limit ||
                      (!page.jobs.empty() && bytes > kMaxPageBytes);
    if (full) {
      page.next_before = last;
      break;
    }
    page.jobs.push_back(parsed<v1::Job>(select.getColumn(1)));
    last = select.getColumn(0).getInt64();
  }
  return page;
}

std::vector<v1::Event> JobStore::events_after(const std::string& id, int64_t seq, int limit) {
  const std::lock_guard lock(mutex_);
  const Row row = load_existing(id);
  SQLite::Statement select(
      database_, "SELECT body FROM events WHERE job = ? AND seq > ? ORDER BY seq LIMIT ?");
  select.bind(1, row.number);
  select.bind(2, seq);
  select.bind(3, limit);
  std::vector<v1::Event> events;
  while (select.executeStep()) events.push_back(parsed<v1::Event>(select.getColumn(0)));
  return events;
}

v1::Job JobStore::request_cancel(const std::string& id) {
  Row row;
  transact([&] {
    row = load_existing(id);
    if (row.job.state() == v1::Job::QUEUED) {
      enter(row, v1::Job::CANCELLED, "cancelled while queued");
    } else if (is_launched(row.job.state()) && !row.job.cancelling()) {
      row.job.set_cancelling(true);
      save(row);
    }
  });
  return row.job;
}

void JobStore::remove(const std::string& id, const std::function<void()>& before_commit) {
  transact([&] {
    const Row row = load_existing(id);
    if (!has_ended(row.job.state())) {
      throw ApiError(grpc::StatusCode::FAILED_PRECONDITION, "JOB_NOT_ENDED",
                     "job " + id + " is " + v1::Job::State_Name(row.job.state()) +
                         "; cancel it and wait for its end first",
                     {{"id", id}});
    }
    SQLite::Statement erase(database_, "DELETE FROM jobs WHERE number = ?");
    erase.bind(1, row.number);
    erase.exec();
    before_commit();
  });
}

std::optional<v1::Job> JobStore::oldest_queued() {
  std::vector<v1::Job> jobs =
      jobs_in("state = " + std::to_string(v1::Job::QUEUED) + " ORDER BY number LIMIT 1");
  if (jobs.empty()) return std::nullopt;
  return jobs.front();
}

std::vector<v1::Job> JobStore::launched() {
  return jobs_in("state IN (" + std::to_string(v1::Job::STARTING) + ", " +
                 std::to_string(v1::Job::RUNNING) + ") ORDER BY number");
}

std::optional<v1::Job> JobStore::begin_attempt(const std::string& id,
                                               const std::string& token_sha256,
                                               const std::string& reason) {
  std::optional<Row> row;
  transact([&] {
    row = load(id);
    if (row && (has_ended(row->job.state()) || row->job.cancelling())) row.reset();
    if (!row) return;
    row->job.set_attempt(row->job.attempt() + 1);
    row->job.clear_progress();
    if (!row->job.has_start_time()) *row->job.mutable_start_time() = TimeUtil::GetCurrentTime();
    SQLite::Statement insert_attempt(
        database_, "INSERT INTO attempts (job, number, token_sha256) VALUES (?, ?, ?)");
    insert_attempt.bind(1, row->number);
    insert_attempt.bind(2, row->job.attempt());
    bind_blob(insert_attempt, 3, token_sha256);
    insert_attempt.exec();
    enter(*row, v1::Job::STARTING, reason);
  });
  if (!row) return std::nullopt;
  return row->job;
}

void JobStore::finish(const std::string& id, const Outcome& outcome) {
  if (!has_ended(outcome.state)) throw std::logic_error("an outcome must be a final state");
  transact([&] {
    Row row = load_existing(id);
    if (has_ended(row.job.state())) throw std::logic_error("job " + id + " has ended already");
    if (outcome.error) *row.job.mutable_error() = *outcome.error;
    if (outcome.result) *row.job.mutable_result() = *outcome.result;
    if (outcome.state == v1::Job::SUCCEEDED) complete(*row.job.mutable_progress());
    enter(row, outcome.state, outcome.error ? outcome.error->message() : "");
  });
}

std::string JobStore::token_sha256(const std::string& id, int attempt) {
  const std::lock_guard lock(mutex_);
  SQLite::Statement query(database_,
                          "SELECT token_sha256 FROM attempts JOIN jobs ON job = jobs.number "
                          "WHERE id = ? AND attempts.number = ?");
  query.bind(1, id);
  query.bind(2, attempt);
  if (!query.executeStep()) return "";
  const SQLite::Column hash = query.getColumn(0);
  return std::string(static_cast<const char*>(hash.getBlob()),
                     static_cast<size_t>(hash.getBytes()));
}

bool JobStore::confirm_running(const std::string& id, int attempt) {
  {
    const std::lock_guard lock(mutex_);
    const Row row = load_existing(id);
    if (row.job.attempt() != attempt || !is_launched(row.job.state())) return false;
    if (row.job.cancelling()) return false;
    if (row.job.state() == v1::Job::RUNNING) return true;
  }
  transact([&] {
    Row row = load_existing(id);
    if (row.job.attempt() != attempt || row.job.state() != v1::Job::STARTING) return;
    enter(row, v1::Job::RUNNING, "");
  });
  return true;
}

void JobStore::record_progress(const std::string& id, int attempt, const v1::Progress& progress) {
  transact([&] {
    Row row = load_existing(id);
    if (row.job.attempt() != attempt || !is_launched(row.job.state())) return;
    *row.job.mutable_progress() = progress;
    v1::Event event;
    *event.mutable_progress() = progress;
    append(row, std::move(event));
    save(row);
  });
}

void JobStore::record_failure(const std::string& id, int attempt, const v1::JobError& error) {
  transact([&] {
    const Row row = load_existing(id);
    SQLite::Statement update(
        database_,
        "UPDATE attempts SET failure = ? WHERE job = ? AND number = ? AND failure IS NULL");
    bind_blob(update, 1, error.SerializeAsString());
    update.bind(2, row.number);
    update.bind(3, attempt);
    update.exec();
  });
}

std::optional<v1::JobError> JobStore::reported_failure(const std::string& id, int attempt) {
  const std::lock_guard lock(mutex_);
  const Row row = load_existing(id);
  SQLite::Statement query(database_,
                          "SELECT failure FROM attempts WHERE job = ? AND number = ? AND failure "
                          "IS NOT NULL");
  query.bind(1, row.number);
  query.bind(2, attempt);
  if (!query.executeStep()) return std::nullopt;
  return parsed<v1::JobError>(query.getColumn(0));
}

}  // namespace dotresize
