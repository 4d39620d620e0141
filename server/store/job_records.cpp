#include "server/store/job_records.h"

#include <SQLiteCpp/Column.h>
#include <fmt/format.h>
#include <google/protobuf/util/time_util.h>

#include <limits>
#include <set>
#include <utility>

#include "base/process/environment.h"
#include "base/text/encodings.h"
#include "server/common/api_error.h"
#include "server/store/job_schema.h"

namespace dotresize {
namespace {

// Limit of a page, which keeps an answer below the 4 MiB that clients accept by default.
constexpr size_t kMaxPageBytes = 2u << 20;

// Columns that row_of() reads.
constexpr char kJobColumns[] = "number, last_event, id, request_id, name, state, output, body";
enum JobColumn { kNumber, kLastEvent, kId, kRequestId, kName, kState, kOutput, kBody };

/// First parameter for the id prefix in list_sql; above those of all labels.
constexpr int kFirstWithPrefix = 101;

}  // namespace

const std::string kSelectJobs = std::string("SELECT ") + kJobColumns + " FROM jobs WHERE ";

JobRow row_of(const SQLite::Database& database, SQLite::Statement& query) {
  JobRow row;
  row.number = query.getColumn(kNumber).getInt64();
  row.last_event = query.getColumn(kLastEvent).getInt64();
  row.output = query.getColumn(kOutput).getString();
  const std::string id = query.getColumn(kId).getString();
  if (auto job = parsed<v1::Job>(query.getColumn(kBody)); job && job->id() == id) {
    row.job = std::move(*job);
    row.stored_state = row.job.state();
    return row;
  }
  row.damaged = true;
  row.job.set_id(id);
  row.job.set_request_id(query.getColumn(kRequestId).getString());
  row.job.mutable_spec()->set_name(query.getColumn(kName).getString());
  row.job.mutable_spec()->mutable_output()->set_path(row.output);
  const int state = query.getColumn(kState).getInt();
  row.job.set_state(v1::Job::State_IsValid(state) ? static_cast<v1::Job::State>(state)
                                                  : v1::Job::FAILED);
  row.stored_state = row.job.state();
  auto attempts = prepare(database, "SELECT max(number) FROM attempts WHERE job = ?", row.number);
  if (attempts.executeStep()) row.job.set_attempt(attempts.getColumn(0).getInt());
  row.job.mutable_error()->set_code(kDamagedRecord);
  row.job.mutable_error()->set_rank(-1);
  row.job.mutable_error()->set_message("the record of this job in the job table is damaged");
  return row;
}

std::optional<JobRow> find_row(const SQLite::Database& database, const std::string& id) {
  auto query = prepare(database, kSelectJobs + "id = ?", id);
  if (!query.executeStep()) return std::nullopt;
  return row_of(database, query);
}

JobRow insert_row(const SQLite::Database& database, const NewJob& job) {
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
  *row.job.mutable_create_time() = google::protobuf::util::TimeUtil::GetCurrentTime();

  prepare(database,
          "INSERT INTO jobs (id, request_id, name, state, output, last_event, body, owner) "
          "VALUES (?, NULLIF(?, ''), ?, ?, ?, 0, ?, ?)",
          row.job.id(), job.request_id, job.spec.name(), row.job.state(), job.output,
          Blob{row.job.SerializeAsString()}, job.owner)
      .exec();
  row.number = database.getLastInsertRowid();
  if (!job.plan.empty()) {
    prepare(database, "INSERT INTO plans VALUES (?, ?)", row.number, job.plan).exec();
  }
  for (const auto& [key, value] : job.options.labels()) {
    prepare(database, "INSERT INTO labels VALUES (?, ?, ?)", key, value, row.number).exec();
  }
  return row;
}

std::string list_sql(const JobQuery& query) {
  // So few ids have a prefix of "j-" and two digits that an index lookup and a sort are faster than
  // a scan of all jobs, newest first. A unary plus keeps SQLite from using the index of a column.
  const bool selective = query.id_prefix.size() >= 4;
  const std::string plus = selective ? "+" : "";
  std::string filter = "number < ?1";
  if (!query.name.empty()) filter += " AND " + plus + "name = ?2";
  if (!query.owner.empty()) filter += " AND " + plus + "owner = ?3";
  if (!query.id_prefix.empty()) {
    filter += fmt::format(" AND id BETWEEN ?{} AND ?{}", kFirstWithPrefix, kFirstWithPrefix + 1);
  }
  if (!query.labels.empty()) {  // scans the rows of the first label in order, looks up the others
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
  if (selective) {
    if (!query.states.empty()) filter += " AND " + plus + is_one_of(query.states);
    return kSelectJobs + filter + " ORDER BY +number DESC";
  }
  if (query.states.empty()) return kSelectJobs + filter + " ORDER BY number DESC";
  // UNION ALL lets each state use its index: rows of one state are in order, so nothing is sorted.
  std::string sql;
  for (const v1::Job::State state : std::set(query.states.begin(), query.states.end())) {
    sql += fmt::format("{}{}{} AND {}", sql.empty() ? "" : " UNION ALL ", kSelectJobs, filter,
                       is_one_of({state}));
  }
  return sql + " ORDER BY number DESC";
}

JobPage page_of(const SQLite::Database& database, const JobQuery& query) {
  SQLite::Statement select(database, list_sql(query));
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
  while (select.executeStep()) {
    const auto bytes = static_cast<size_t>(select.getColumn(kBody).getBytes());
    const bool full = static_cast<int>(page.jobs.size()) == query.limit ||
                      (!page.jobs.empty() && page.bytes + bytes > kMaxPageBytes);
    if (full) {
      page.next_before = last;
      break;
    }
    page.bytes += bytes;
    page.jobs.push_back(row_of(database, select).job);
    last = select.getColumn(kNumber).getInt64();
  }
  return page;
}

void refuse_claims(const std::string& what) {
  throw ApiError(grpc::StatusCode::RESOURCE_EXHAUSTED, "TOO_MANY_PATHS",
                 fmt::format("the job names too many {}: with links resolved it may name {} paths "
                             "of {} MiB together; fewer or longer files would do",
                             what, kMostClaims, kMostClaimedBytes >> 20));
}

}  // namespace dotresize
