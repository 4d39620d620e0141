#include "server/store/job_table.h"

#include <SQLiteCpp/Column.h>
#include <SQLiteCpp/Statement.h>
#include <fmt/format.h>
#include <google/protobuf/util/time_util.h>

#include <limits>
#include <set>
#include <utility>

#include "base/process/environment.h"
#include "base/text/printable.h"
#include "server/store/job_schema.h"
#include "server/store/sql.h"

namespace dotresize {
namespace {

using google::protobuf::util::TimeUtil;

// Limit of a page, which keeps an answer below the 4 MiB that clients accept by default.
constexpr size_t kMaxPageBytes = 2u << 20;

// Columns that row_of() reads.
constexpr char kJobColumns[] = "number, last_event, id, request_id, name, state, output, body";
const std::string kSelectJobs = std::string("SELECT ") + kJobColumns + " FROM jobs WHERE ";
enum JobColumn { kNumber, kLastEvent, kId, kRequestId, kName, kState, kOutput, kBody };

int64_t now_ms() { return TimeUtil::TimestampToMilliseconds(TimeUtil::GetCurrentTime()); }

/// First parameter for the id prefix in list_sql; above those of all labels.
constexpr int kFirstWithPrefix = 101;

/// Returns true if so few ids have the prefix ("j-" and two digits) that an index lookup and a sort
/// are faster than a scan of all jobs, newest first.
bool is_selective(const std::string& id_prefix) { return id_prefix.size() >= 4; }

/// Returns the statement of a list by labels: scans the rows of the first label in order, and looks
/// up the others.
std::string labels_sql(const JobQuery& query, const std::string& filter) {
  std::string sql = std::string("SELECT ") + kJobColumns +
                    " FROM labels CROSS JOIN jobs ON number = job WHERE key = ?4 AND value = ?5 "
                    "AND job < ?1 AND " +
                    filter;
  for (size_t i = 1; i < query.labels.size(); ++i) {
    sql += fmt::format(
        " AND EXISTS (SELECT 1 FROM labels WHERE key = ?{} AND value = ?{} AND job = number)",
        4 + 2 * i, 5 + 2 * i);
  }
  if (!query.states.empty()) sql += " AND " + is_one_of(query.states);
  return sql + " ORDER BY job DESC";
}

/// Returns the path and all directories above it.
std::vector<std::string> with_ancestors(const std::string& path) {
  std::vector<std::string> all;
  for (std::filesystem::path at = path;; at = at.parent_path()) {
    all.push_back(at.string());
    if (at == at.parent_path()) return all;
  }
}

}  // namespace

double unix_time(const google::protobuf::Timestamp& time) {
  return static_cast<double>(time.seconds()) + 1e-9 * time.nanos();
}

JobTable::JobTable(const std::filesystem::path& database) : database_(open_job_tables(database)) {}

JobTable::JobTable(const std::filesystem::path& database, Reader)
    : database_(database.string(), SQLite::OPEN_READWRITE, kBusyTimeoutMs) {}

void JobTable::fix_snapshot() {
  SQLite::Statement(database_, "SELECT EXISTS (SELECT 1 FROM jobs)").executeStep();
}

JobRow JobTable::row_of(SQLite::Statement& query) {
  auto job = parsed<v1::Job>(query.getColumn(kBody));
  if (!job || job->id() != query.getColumn(kId).getString()) return damaged_row(query);
  JobRow row;
  row.number = query.getColumn(kNumber).getInt64();
  row.last_event = query.getColumn(kLastEvent).getInt64();
  row.output = query.getColumn(kOutput).getString();
  row.job = std::move(*job);
  row.stored_state = row.job.state();
  return row;
}

JobRow JobTable::damaged_row(SQLite::Statement& query) {
  JobRow row;
  row.damaged = true;
  row.number = query.getColumn(kNumber).getInt64();
  row.last_event = query.getColumn(kLastEvent).getInt64();
  row.output = query.getColumn(kOutput).getString();
  row.job.set_id(query.getColumn(kId).getString());
  row.job.set_request_id(query.getColumn(kRequestId).getString());
  row.job.mutable_spec()->set_name(query.getColumn(kName).getString());
  row.job.mutable_spec()->mutable_output()->set_path(row.output);
  const int state = query.getColumn(kState).getInt();
  row.job.set_state(v1::Job::State_IsValid(state) ? static_cast<v1::Job::State>(state)
                                                  : v1::Job::FAILED);
  row.stored_state = row.job.state();
  auto attempts = prepare(database_, "SELECT max(number) FROM attempts WHERE job = ?", row.number);
  if (attempts.executeStep()) row.job.set_attempt(attempts.getColumn(0).getInt());
  row.job.mutable_error()->set_code(kDamagedRecord);
  row.job.mutable_error()->set_rank(-1);
  row.job.mutable_error()->set_message("the record of this job in the job table is damaged");
  return row;
}

std::vector<v1::Job> JobTable::jobs_of(SQLite::Statement query) {
  std::vector<v1::Job> jobs;
  while (query.executeStep()) jobs.push_back(row_of(query).job);
  return jobs;
}

std::optional<JobRow> JobTable::find(const std::string& id) {
  auto query = prepare(database_, kSelectJobs + "id = ?", id);
  if (!query.executeStep()) return std::nullopt;
  return row_of(query);
}

std::optional<JobPosition> JobTable::position(const std::string& id) {
  auto query = prepare(database_, "SELECT number, last_event, state FROM jobs WHERE id = ?", id);
  if (!query.executeStep()) return std::nullopt;
  return JobPosition{query.getColumn(0).getInt64(), query.getColumn(1).getInt64(),
                     static_cast<v1::Job::State>(query.getColumn(2).getInt())};
}

std::optional<v1::Job> JobTable::find_request(const std::string& request_id) {
  auto query = prepare(database_, kSelectJobs + "request_id = ?", request_id);
  if (!query.executeStep()) return std::nullopt;
  return row_of(query).job;
}

void JobTable::claim(int64_t number, const std::vector<PathClaim>& claims) {
  insert_claims(database_, number, claims);
}

void JobTable::release(int64_t number) {
  prepare(database_, "DELETE FROM claims WHERE job = ?", number).exec();
}

std::optional<JobTable::Conflict> JobTable::find_conflict(int64_t number,
                                                          const std::vector<PathClaim>& claims) {
  const std::string select =
      "SELECT id, path FROM claims JOIN jobs ON job = jobs.number "
      "WHERE job != ? AND (writes OR ?) AND ";
  for (const PathClaim& claim : claims) {
    const auto conflict = [&](SQLite::Statement query) -> std::optional<Conflict> {
      if (!query.executeStep()) return std::nullopt;
      return Conflict{query.getColumn(0).getString(), query.getColumn(1).getString(), claim};
    };
    const int writes = claim.writes ? 1 : 0;
    for (const std::string& path : with_ancestors(claim.path)) {
      if (auto found = conflict(prepare(database_, select + "path = ?", number, writes, path))) {
        return found;
      }
    }
    // Range of paths below this one: '0' follows '/'.
    if (auto found = conflict(prepare(database_, select + "path > ? AND path < ?", number, writes,
                                      claim.path + "/", claim.path + "0"))) {
      return found;
    }
  }
  return std::nullopt;
}

std::vector<v1::Job> JobTable::in_states(const std::vector<v1::Job::State>& states) {
  return jobs_of(prepare(database_, kSelectJobs + is_one_of(states) + " ORDER BY number"));
}

void JobTable::enqueue(const JobRow& row) { insert_into_queue(database_, row.number, row.job); }

void JobTable::dequeue(int64_t number) {
  prepare(database_, "DELETE FROM queue WHERE job = ?", number).exec();
}

int64_t JobTable::last_number() {
  auto query = prepare(database_, "SELECT seq FROM sqlite_sequence WHERE name = 'jobs'");
  return query.executeStep() ? query.getColumn(0).getInt64() : 0;
}

void JobTable::shift_retries(int64_t ms) {
  prepare(database_, "UPDATE queue SET retry_ms = retry_ms + ? WHERE retry_ms > 0", ms).exec();
  prepare(database_, "UPDATE notifications SET due_ms = due_ms + ?", ms).exec();
}

std::vector<QueuedJob> JobTable::queued(int limit) {
  const auto window = [](const char* remote) {
    return fmt::format(
        "SELECT * FROM (SELECT * FROM queue WHERE (ranks = 0) = {} AND retry_ms <= ?1 "
        "ORDER BY priority DESC, job LIMIT ?2)",
        remote);
  };
  auto query = prepare(database_,
                       "SELECT id, device, ranks, memory FROM (" + window("0") + " UNION ALL " +
                           window("1") + ") JOIN jobs ON job = number ORDER BY priority DESC, job",
                       now_ms(), limit);
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

std::vector<std::string> JobTable::queue(int limit) {
  auto query = prepare(database_,
                       "SELECT id FROM queue JOIN jobs ON job = number "
                       "ORDER BY priority DESC, job LIMIT ?",
                       limit);
  std::vector<std::string> ids;
  while (query.executeStep()) ids.push_back(query.getColumn(0).getString());
  return ids;
}

std::vector<std::string> JobTable::to_fetch(int limit) {
  auto query = prepare(database_,
                       "SELECT id FROM queue JOIN jobs ON job = number WHERE retry_ms >= ? "
                       "ORDER BY priority DESC, job LIMIT ?",
                       kUnfetchedMs / 2, limit);
  std::vector<std::string> ids;
  while (query.executeStep()) ids.push_back(query.getColumn(0).getString());
  return ids;
}

int JobTable::queue_position(int64_t number) {
  auto query = prepare(database_,
                       "SELECT count(*) FROM queue AS other, queue AS self WHERE self.job = ?1 AND "
                       "(other.priority, -other.job) >= (self.priority, -self.job)",
                       number);
  query.executeStep();
  return query.getColumn(0).getInt();
}

void JobTable::expire(int64_t number, int64_t at_ms) {
  prepare(database_, "DELETE FROM expiries WHERE job = ?", number).exec();
  if (at_ms > 0) prepare(database_, "INSERT INTO expiries VALUES (?, ?)", number, at_ms).exec();
}

std::vector<std::string> JobTable::expired(int limit) {
  auto query = prepare(database_,
                       "SELECT id FROM expiries JOIN jobs ON job = number WHERE at_ms <= ? "
                       "AND number NOT IN (SELECT job FROM notifications) "
                       "ORDER BY at_ms LIMIT ?",
                       now_ms(), limit);
  std::vector<std::string> ids;
  while (query.executeStep()) ids.push_back(query.getColumn(0).getString());
  return ids;
}

void JobTable::notify_at(int64_t number, int64_t at_ms) {
  prepare(database_, "DELETE FROM notifications WHERE job = ?", number).exec();
  if (at_ms > 0) {
    prepare(database_, "INSERT INTO notifications VALUES (?, ?)", number, at_ms).exec();
  }
}

std::vector<std::string> JobTable::due_notifications(int limit) {
  auto query = prepare(database_,
                       "SELECT id FROM notifications JOIN jobs ON job = number WHERE due_ms <= ? "
                       "ORDER BY due_ms LIMIT ?",
                       now_ms(), limit);
  std::vector<std::string> ids;
  while (query.executeStep()) ids.push_back(query.getColumn(0).getString());
  return ids;
}

int JobTable::count_queued(const std::optional<std::string>& owner) {
  auto query = owner ? prepare(database_, "SELECT count(*) FROM queue WHERE owner = ?", *owner)
                     : prepare(database_, "SELECT count(*) FROM queue");
  query.executeStep();
  return query.getColumn(0).getInt();
}

std::map<v1::Job::State, int64_t> JobTable::counts() {
  std::map<v1::Job::State, int64_t> counts;
  auto query = prepare(database_, "SELECT state, count(*) FROM jobs GROUP BY state");
  while (query.executeStep()) {
    const int state = query.getColumn(0).getInt();
    if (v1::Job::State_IsValid(state)) {
      counts[static_cast<v1::Job::State>(state)] = query.getColumn(1).getInt64();
    }
  }
  return counts;
}

std::optional<google::protobuf::Timestamp> JobTable::head_queued_since() {
  // The last event of a queued job says that it was queued.
  auto query = prepare(database_,
                       "SELECT number, last_event FROM queue JOIN jobs ON job = number "
                       "ORDER BY priority DESC, job LIMIT 1");
  if (!query.executeStep()) return std::nullopt;
  const auto events =
      events_after(query.getColumn(0).getInt64(), query.getColumn(1).getInt64() - 1, 1);
  if (events.empty()) return std::nullopt;
  return events.front().time();
}

double JobTable::last_success() {
  constexpr int kNewest = 100;
  double last = 0.0;
  auto query = prepare(database_, kSelectJobs + "state = ? ORDER BY number DESC LIMIT ?",
                       v1::Job::SUCCEEDED, kNewest);
  while (query.executeStep()) last = std::max(last, unix_time(row_of(query).job.end_time()));
  return last;
}

std::string list_sql(const JobQuery& query) {
  // A unary plus keeps SQLite from using the index of that column.
  const std::string plus = is_selective(query.id_prefix) ? "+" : "";
  std::string filter = "number < ?1";
  if (!query.name.empty()) filter += " AND " + plus + "name = ?2";
  if (!query.owner.empty()) filter += " AND " + plus + "owner = ?3";
  if (!query.id_prefix.empty()) {
    filter += fmt::format(" AND id BETWEEN ?{} AND ?{}", kFirstWithPrefix, kFirstWithPrefix + 1);
  }
  const std::string newest_first = " ORDER BY number DESC";
  if (!query.labels.empty()) return labels_sql(query, filter);
  if (is_selective(query.id_prefix)) {
    if (!query.states.empty()) filter += " AND " + plus + is_one_of(query.states);
    return kSelectJobs + filter + " ORDER BY +number DESC";
  }
  if (query.states.empty()) return kSelectJobs + filter + newest_first;
  // UNION ALL lets each state use its index: rows of one state are in order, so nothing is sorted.
  std::string sql;
  for (const v1::Job::State state : std::set(query.states.begin(), query.states.end())) {
    sql += fmt::format("{}{}{} AND {}", sql.empty() ? "" : " UNION ALL ", kSelectJobs, filter,
                       is_one_of({state}));
  }
  return sql + newest_first;
}

JobPage JobTable::list(const JobQuery& query) {
  SQLite::Statement select(database_, list_sql(query));
  select.bind(1, query.before == 0 ? std::numeric_limits<int64_t>::max() : query.before);
  if (!query.name.empty()) select.bind(2, query.name);
  if (!query.owner.empty()) select.bind(3, query.owner);
  if (!query.id_prefix.empty()) {
    select.bind(kFirstWithPrefix, query.id_prefix);
    select.bind(kFirstWithPrefix + 1, query.id_prefix + "~");  // sorts after every id character
  }
  int parameter = 4;
  for (const auto& [key, value] : query.labels) {
    select.bind(parameter++, key);
    select.bind(parameter++, value);
  }

  JobPage page;
  int64_t last = 0;
  size_t bytes = 0;
  while (select.executeStep()) {
    bytes += static_cast<size_t>(select.getColumn(kBody).getBytes());
    const bool full = static_cast<int>(page.jobs.size()) == query.limit ||
                      (!page.jobs.empty() && bytes > kMaxPageBytes);
    if (full) {
      page.next_before = last;
      break;
    }
    page.jobs.push_back(row_of(select).job);
    last = select.getColumn(kNumber).getInt64();
  }
  return page;
}

JobRow JobTable::insert(const NewJob& job) {
  JobRow row;
  row.output = job.output;
  row.job.set_id("j-" + hex_digits(random_bytes(8)));
  *row.job.mutable_spec() = job.spec;
  row.job.set_request_id(job.request_id);
  if (!job.owner.empty()) row.job.set_owner(job.owner);
  if (!job.traceparent.empty()) row.job.set_traceparent(job.traceparent);
  if (job.options.ByteSizeLong() > 0) *row.job.mutable_options() = job.options;
  if (job.memory > 0) row.job.set_memory_bytes(job.memory);
  if (job.sweep) {
    *row.job.mutable_sweep() = *job.sweep;
    *row.job.mutable_sweep_size() = job.sweep_size;
  }
  if (job.launcher != kLocalLauncher) row.job.set_launcher(job.launcher);
  if (job.fetching) row.job.set_fetching(true);
  row.job.set_state(v1::Job::QUEUED);
  *row.job.mutable_create_time() = TimeUtil::GetCurrentTime();

  prepare(database_,
          "INSERT INTO jobs (id, request_id, name, state, output, last_event, body, owner) "
          "VALUES (?, NULLIF(?, ''), ?, ?, ?, 0, ?, ?)",
          row.job.id(), job.request_id, job.spec.name(), row.job.state(), job.output,
          Blob{row.job.SerializeAsString()}, job.owner)
      .exec();
  row.number = database_.getLastInsertRowid();
  if (!job.plan.empty()) save_plan(row.number, job.plan);
  for (const auto& [key, value] : job.options.labels()) {
    prepare(database_, "INSERT INTO labels VALUES (?, ?, ?)", key, value, row.number).exec();
  }
  return row;
}

void JobTable::save_plan(int64_t number, const std::string& plan) {
  prepare(database_, "INSERT OR REPLACE INTO plans VALUES (?, ?)", number, plan).exec();
}

std::string JobTable::plan(const std::string& id) {
  auto query =
      prepare(database_, "SELECT plan FROM plans JOIN jobs ON job = number WHERE id = ?", id);
  return query.executeStep() ? query.getColumn(0).getString() : "";
}

void JobTable::save(JobRow& row) {
  if (std::exchange(row.damaged, false)) {
    prepare(database_, "INSERT INTO quarantine SELECT id, body FROM jobs WHERE number = ?",
            row.number)
        .exec();
  }
  prepare(database_, "UPDATE jobs SET state = ?, last_event = ?, body = ? WHERE number = ?",
          row.job.state(), row.last_event, Blob{row.job.SerializeAsString()}, row.number)
      .exec();
}

void JobTable::erase(const JobRow& row) {
  prepare(database_, "DELETE FROM jobs WHERE number = ?", row.number).exec();
}

void JobTable::append(JobRow& row, v1::Event event) {
  event.set_seq(++row.last_event);
  *event.mutable_time() = TimeUtil::GetCurrentTime();
  prepare(database_, "INSERT INTO events VALUES (?, ?, ?)", row.number, row.last_event,
          Blob{event.SerializeAsString()})
      .exec();
}

std::vector<v1::Event> JobTable::events_after(int64_t number, int64_t seq, int limit) {
  auto query = prepare(
      database_, "SELECT seq, body FROM events WHERE job = ? AND seq > ? ORDER BY seq LIMIT ?",
      number, seq, limit);
  std::vector<v1::Event> events;
  while (query.executeStep()) {
    v1::Event event = parsed<v1::Event>(query.getColumn(1)).value_or(v1::Event());
    event.set_seq(query.getColumn(0).getInt64());
    events.push_back(std::move(event));
  }
  return events;
}

void JobTable::insert_attempt(const JobRow& row, const std::string& token_sha256) {
  prepare(database_, "INSERT INTO attempts (job, number, token_sha256) VALUES (?, ?, ?)",
          row.number, row.job.attempt(), Blob{token_sha256})
      .exec();
}

std::string JobTable::token_sha256(const std::string& id, int attempt) {
  auto query = prepare(database_,
                       "SELECT token_sha256 FROM attempts JOIN jobs ON job = jobs.number "
                       "WHERE id = ? AND attempts.number = ?",
                       id, attempt);
  if (!query.executeStep()) return "";
  const SQLite::Column hash = query.getColumn(0);
  return std::string(static_cast<const char*>(hash.getBlob()),
                     static_cast<size_t>(hash.getBytes()));
}

void JobTable::save_failure(const JobRow& row, int attempt, const v1::JobError& error) {
  prepare(database_,
          "UPDATE attempts SET failure = ? WHERE job = ? AND number = ? AND failure IS NULL",
          Blob{error.SerializeAsString()}, row.number, attempt)
      .exec();
}

std::optional<v1::JobError> JobTable::failure(const JobRow& row, int attempt) {
  auto query = prepare(database_,
                       "SELECT failure FROM attempts WHERE job = ? AND number = ? AND failure "
                       "IS NOT NULL",
                       row.number, attempt);
  if (!query.executeStep()) return std::nullopt;
  return parsed<v1::JobError>(query.getColumn(0));
}

}  // namespace dotresize
