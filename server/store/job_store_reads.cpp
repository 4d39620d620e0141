// JobStore methods that read.

#include <SQLiteCpp/Transaction.h>
#include <fmt/format.h>
#include <google/protobuf/util/time_util.h>

#include <utility>

#include "server/common/api_error.h"
#include "server/store/job_schema.h"
#include "server/store/job_store.h"

namespace dotresize {
namespace {

/// Returns the jobs in these states, in the order of creation.
std::vector<v1::Job> jobs_in(const SQLite::Database& database,
                             const std::vector<v1::Job::State>& states) {
  auto query = prepare(database, kSelectJobs + is_one_of(states) + " ORDER BY number");
  std::vector<v1::Job> jobs;
  while (query.executeStep()) jobs.push_back(row_of(database, query).job);
  return jobs;
}

}  // namespace

std::optional<v1::Job> JobStore::find(const std::string& id) {
  const Lock lock(read_mutex_);
  std::optional<JobRow> row = find_row(reader_, id);
  if (!row) return std::nullopt;
  return std::move(row->job);
}

v1::Job JobStore::get(const std::string& id) {
  std::optional<v1::Job> job = find(id);
  if (!job) throw job_not_found(id);
  return *std::move(job);
}

std::string JobStore::output_of(const std::string& id) {
  const Lock lock(read_mutex_);
  auto query = prepare(reader_, "SELECT output FROM jobs WHERE id = ?", id);
  if (!query.executeStep()) throw job_not_found(id);
  return query.getColumn(0).getString();
}

std::string JobStore::plan_of(const std::string& id) {
  const Lock lock(read_mutex_);
  auto query =
      prepare(reader_, "SELECT plan FROM plans JOIN jobs ON job = number WHERE id = ?", id);
  return query.executeStep() ? query.getColumn(0).getString() : "";
}

JobPosition JobStore::position(const std::string& id) {
  const Lock lock(read_mutex_);
  auto query = prepare(reader_, "SELECT number, last_event, state FROM jobs WHERE id = ?", id);
  if (!query.executeStep()) throw job_not_found(id);
  return {query.getColumn(0).getInt64(), query.getColumn(1).getInt64(),
          static_cast<v1::Job::State>(query.getColumn(2).getInt())};
}

std::vector<v1::Event> JobStore::events_after(const std::string& id, int64_t seq, int limit) {
  const int64_t number = position(id).number;
  const Lock lock(read_mutex_);
  auto query = prepare(
      reader_, "SELECT seq, body FROM events WHERE job = ? AND seq > ? ORDER BY seq LIMIT ?",
      number, seq, limit);
  std::vector<v1::Event> events;
  while (query.executeStep()) {
    v1::Event event = parsed<v1::Event>(query.getColumn(1)).value_or(v1::Event());
    event.set_seq(query.getColumn(0).getInt64());
    events.push_back(std::move(event));
  }
  return events;
}

JobPage JobStore::list(const JobQuery& query) {
  const Lock lock(list_mutex_);
  return page_of(lister_, query);
}

JobListing JobStore::listing(const JobQuery& query) {
  const Lock reading(list_mutex_);
  Lock writing(mutex_);
  const SQLite::Transaction snapshot(lister_);
  // The first read fixes what this transaction sees: nothing that is committed later.
  SQLite::Statement(lister_, "SELECT EXISTS (SELECT 1 FROM jobs)").executeStep();
  const int64_t last_change = recent_.last();
  writing.unlock();  // reading may take long
  return {page_of(lister_, query), last_change};
}

std::map<v1::Job::State, int64_t> JobStore::counts() {
  const Lock lock(list_mutex_);
  std::map<v1::Job::State, int64_t> counts;
  auto query = prepare(lister_, "SELECT state, count(*) FROM jobs GROUP BY state");
  while (query.executeStep()) {
    const int state = query.getColumn(0).getInt();
    if (v1::Job::State_IsValid(state)) {
      counts[static_cast<v1::Job::State>(state)] = query.getColumn(1).getInt64();
    }
  }
  return counts;
}

std::vector<QueuedJob> JobStore::queued(int limit) {
  const auto window = [](const char* remote) {
    return fmt::format(
        "SELECT * FROM (SELECT * FROM queue WHERE (ranks = 0) = {} AND retry_ms <= ?1 "
        "ORDER BY priority DESC, job LIMIT ?2)",
        remote);
  };
  const Lock lock(mutex_);
  auto query = prepare(table_,
                       "SELECT id, device, ranks, memory FROM (" + window("0") + " UNION ALL " +
                           window("1") + ") JOIN jobs ON job = number ORDER BY priority DESC, job",
                       clock_.now_ms(), limit);
  std::vector<QueuedJob> jobs;
  while (query.executeStep()) {
    const int device = query.getColumn(1).getInt();
    jobs.push_back({query.getColumn(0).getString(),
                    v1::Resources::Device_IsValid(device)
                        ? static_cast<v1::Resources::Device>(device)
                        : v1::Resources::cpu,
                    query.getColumn(2).getInt64(), query.getColumn(3).getInt64()});
  }
  return jobs;
}

std::vector<std::string> JobStore::queue(int limit) {
  const Lock lock(list_mutex_);
  return ids_of(prepare(lister_,
                        "SELECT id FROM queue JOIN jobs ON job = number "
                        "ORDER BY priority DESC, job LIMIT ?",
                        limit));
}

int JobStore::queue_position(const std::string& id) {
  const int64_t number = position(id).number;
  const Lock lock(read_mutex_);
  auto query = prepare(reader_,
                       "SELECT count(*) FROM queue AS other, queue AS self WHERE self.job = ?1 AND "
                       "(other.priority, -other.job) >= (self.priority, -self.job)",
                       number);
  query.executeStep();
  return query.getColumn(0).getInt();
}

std::optional<google::protobuf::Timestamp> JobStore::head_queued_since() {
  const Lock lock(read_mutex_);
  // The last event of a queued job says that it was queued.
  auto query = prepare(reader_,
                       "SELECT events.body FROM queue CROSS JOIN jobs ON queue.job = jobs.number "
                       "CROSS JOIN events ON events.job = jobs.number AND seq = last_event "
                       "ORDER BY priority DESC, queue.job LIMIT 1");
  if (!query.executeStep()) return std::nullopt;
  return parsed<v1::Event>(query.getColumn(0)).value_or(v1::Event()).time();
}

std::vector<std::string> JobStore::to_fetch(int limit) {
  const Lock lock(list_mutex_);
  return ids_of(prepare(lister_,
                        "SELECT id FROM queue JOIN jobs ON job = number WHERE retry_ms >= ? "
                        "ORDER BY priority DESC, job LIMIT ?",
                        kUnfetchedMs / 2, limit));
}

std::vector<v1::Job> JobStore::unended() {
  const Lock lock(list_mutex_);
  return jobs_in(lister_, {v1::Job::QUEUED, v1::Job::STARTING, v1::Job::RUNNING});
}

std::vector<v1::Job> JobStore::launched() {
  const Lock lock(mutex_);
  return jobs_in(table_, {v1::Job::STARTING, v1::Job::RUNNING});
}

std::vector<std::string> JobStore::expired(int limit) {
  const Lock lock(read_mutex_);
  return ids_of(prepare(reader_,
                        "SELECT id FROM expiries JOIN jobs ON job = number WHERE at_ms <= ? "
                        "AND number NOT IN (SELECT job FROM notifications) "
                        "ORDER BY at_ms LIMIT ?",
                        clock_.now_ms(), limit));
}

std::vector<std::string> JobStore::due_notifications(int limit) {
  const Lock lock(read_mutex_);
  return ids_of(prepare(reader_,
                        "SELECT id FROM notifications JOIN jobs ON job = number WHERE due_ms <= ? "
                        "ORDER BY due_ms LIMIT ?",
                        clock_.now_ms(), limit));
}

std::string JobStore::token_sha256(const std::string& id, int attempt) {
  const Lock lock(read_mutex_);
  auto query = prepare(reader_,
                       "SELECT token_sha256 FROM attempts JOIN jobs ON job = jobs.number "
                       "WHERE id = ? AND attempts.number = ?",
                       id, attempt);
  if (!query.executeStep()) return "";
  const SQLite::Column hash = query.getColumn(0);
  return std::string(static_cast<const char*>(hash.getBlob()),
                     static_cast<size_t>(hash.getBytes()));
}

bool JobStore::is_wanted(const std::string& id, int attempt) {
  const v1::Job job = get(id);
  return is_launched_attempt(job, attempt) && !job.cancelling() && !job.has_stop_reason();
}

std::optional<v1::JobError> JobStore::reported_failure(const std::string& id, int attempt) {
  const Lock lock(mutex_);
  auto query = prepare(table_,
                       "SELECT failure FROM attempts WHERE job = ? AND number = ? AND failure "
                       "IS NOT NULL",
                       load(id).number, attempt);
  if (!query.executeStep()) return std::nullopt;
  return parsed<v1::JobError>(query.getColumn(0));
}

JobTotals JobStore::totals() {
  const Lock lock(mutex_);
  return totals_;
}

Verdict JobStore::check() {
  try {
    const Lock lock(mutex_);
    const SQLite::Transaction transaction(table_, SQLite::TransactionBehavior::IMMEDIATE);
    return {};
  } catch (const SQLite::Exception& error) {
    return Fault{error.what()};
  }
}

}  // namespace dotresize
