#include "server/job_table.h"

#include <SQLiteCpp/Column.h>
#include <SQLiteCpp/Statement.h>
#include <google/protobuf/util/time_util.h>

#include <stdexcept>

#include "server/attempt_token.h"
#include "server/database.h"

namespace dotresize {
namespace {

using google::protobuf::util::TimeUtil;

// Keeps an answer below the 4 MiB that clients accept by default.
constexpr size_t kMaxPageBytes = 2u << 20;

template <class Message>
Message parsed(const SQLite::Column& column) {
  Message message;
  if (!message.ParseFromArray(column.getBlob(), column.getBytes())) {
    throw std::runtime_error(std::string("the job table holds a damaged ") + column.getName());
  }
  return message;
}

template <class Message>
std::vector<Message> all_of(SQLite::Statement& select) {
  std::vector<Message> messages;
  while (select.executeStep()) messages.push_back(parsed<Message>(select.getColumn(0)));
  return messages;
}

void bind_blob(SQLite::Statement& statement, int index, const std::string& bytes) {
  statement.bind(index, bytes.data(), static_cast<int>(bytes.size()));
}

/// "state IN (1, 2)"
std::string is_one_of(const std::vector<v1::Job::State>& states) {
  std::string numbers;
  for (const v1::Job::State state : states) {
    numbers += (numbers.empty() ? "" : ", ") + std::to_string(static_cast<int>(state));
  }
  return "state IN (" + numbers + ")";
}

}  // namespace

JobTable::JobTable(const std::filesystem::path& database) : database_(open_database(database)) {}

std::optional<JobRow> JobTable::find(const std::string& id) {
  SQLite::Statement query(database_, "SELECT number, last_event, body FROM jobs WHERE id = ?");
  query.bind(1, id);
  if (!query.executeStep()) return std::nullopt;
  return JobRow{query.getColumn(0).getInt64(), query.getColumn(1).getInt64(),
                parsed<v1::Job>(query.getColumn(2))};
}

std::optional<v1::Job> JobTable::find_request(const std::string& request_id) {
  SQLite::Statement query(database_, "SELECT body FROM jobs WHERE request_id = ?");
  query.bind(1, request_id);
  if (!query.executeStep()) return std::nullopt;
  return parsed<v1::Job>(query.getColumn(0));
}

std::optional<std::string> JobTable::find_writer(const std::string& output) {
  SQLite::Statement query(database_,
                          "SELECT id FROM jobs WHERE output = ? AND " +
                              is_one_of({v1::Job::QUEUED, v1::Job::STARTING, v1::Job::RUNNING}));
  query.bind(1, output);
  if (!query.executeStep()) return std::nullopt;
  return query.getColumn(0).getString();
}

std::vector<v1::Job> JobTable::in_states(const std::vector<v1::Job::State>& states, int limit) {
  SQLite::Statement select(
      database_, "SELECT body FROM jobs WHERE " + is_one_of(states) + " ORDER BY number LIMIT ?");
  select.bind(1, limit);
  return all_of<v1::Job>(select);
}

int JobTable::count(v1::Job::State state) {
  SQLite::Statement query(database_, "SELECT count(*) FROM jobs WHERE state = ?");
  query.bind(1, state);
  query.executeStep();
  return query.getColumn(0).getInt();
}

JobPage JobTable::list(const JobQuery& query) {
  std::string sql = "SELECT number, body FROM jobs WHERE (?1 = 0 OR number < ?1)";
  if (!query.name.empty()) sql += " AND name = ?2";
  if (!query.states.empty()) sql += " AND " + is_one_of(query.states);
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

JobRow JobTable::insert(const NewJob& job) {
  JobRow row;
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
  insert_job.bind(4, row.job.state());
  insert_job.bind(5, job.output);
  bind_blob(insert_job, 6, row.job.SerializeAsString());
  insert_job.exec();
  row.number = database_.getLastInsertRowid();
  return row;
}

void JobTable::save(const JobRow& row) {
  SQLite::Statement update(database_,
                           "UPDATE jobs SET state = ?, last_event = ?, body = ? WHERE number = ?");
  update.bind(1, row.job.state());
  update.bind(2, row.last_event);
  bind_blob(update, 3, row.job.SerializeAsString());
  update.bind(4, row.number);
  update.exec();
}

void JobTable::erase(const JobRow& row) {
  SQLite::Statement erase_job(database_, "DELETE FROM jobs WHERE number = ?");
  erase_job.bind(1, row.number);
  erase_job.exec();
}

void JobTable::append(JobRow& row, v1::Event event) {
  event.set_seq(++row.last_event);
  *event.mutable_time() = TimeUtil::GetCurrentTime();
  SQLite::Statement insert_event(database_, "INSERT INTO events VALUES (?, ?, ?)");
  insert_event.bind(1, row.number);
  insert_event.bind(2, row.last_event);
  bind_blob(insert_event, 3, event.SerializeAsString());
  insert_event.exec();
}

std::vector<v1::Event> JobTable::events_after(const JobRow& row, int64_t seq, int limit) {
  SQLite::Statement select(
      database_, "SELECT body FROM events WHERE job = ? AND seq > ? ORDER BY seq LIMIT ?");
  select.bind(1, row.number);
  select.bind(2, seq);
  select.bind(3, limit);
  return all_of<v1::Event>(select);
}

void JobTable::insert_attempt(const JobRow& row, const std::string& token_sha256) {
  SQLite::Statement insert(database_,
                           "INSERT INTO attempts (job, number, token_sha256) VALUES (?, ?, ?)");
  insert.bind(1, row.number);
  insert.bind(2, row.job.attempt());
  bind_blob(insert, 3, token_sha256);
  insert.exec();
}

std::string JobTable::token_sha256(const std::string& id, int attempt) {
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

void JobTable::save_failure(const JobRow& row, int attempt, const v1::JobError& error) {
  SQLite::Statement update(
      database_,
      "UPDATE attempts SET failure = ? WHERE job = ? AND number = ? AND failure IS NULL");
  bind_blob(update, 1, error.SerializeAsString());
  update.bind(2, row.number);
  update.bind(3, attempt);
  update.exec();
}

std::optional<v1::JobError> JobTable::failure(const JobRow& row, int attempt) {
  SQLite::Statement query(database_,
                          "SELECT failure FROM attempts WHERE job = ? AND number = ? AND failure "
                          "IS NOT NULL");
  query.bind(1, row.number);
  query.bind(2, attempt);
  if (!query.executeStep()) return std::nullopt;
  return parsed<v1::JobError>(query.getColumn(0));
}

}  // namespace dotresize
