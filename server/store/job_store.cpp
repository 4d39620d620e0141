#include "server/store/job_store.h"

#include <SQLiteCpp/Transaction.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <google/protobuf/util/message_differencer.h>
#include <google/protobuf/util/time_util.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <memory>
#include <set>
#include <stdexcept>
#include <utility>

#include "base/failure.h"
#include "base/text/encodings.h"
#include "job/spec/spec_paths.h"
#include "job/spec/validate_spec.h"
#include "job/status/job_rows.h"
#include "server/common/api_error.h"
#include "server/store/files.h"
#include "server/store/job_schema.h"

namespace dotresize {

using google::protobuf::util::TimeUtil;

namespace {

constexpr size_t kDigits = 19;  // digits of a number in the file of AcknowledgedJobs
constexpr size_t kMostLookUps = 30'000;

void limit_claims(const std::vector<PathClaim>& claims) {
  if (claims.size() > kMostClaims) refuse_claims("paths");
  size_t bytes = 0;
  for (const PathClaim& claim : claims) bytes += claim.path.size();
  if (bytes > kMostClaimedBytes) refuse_claims("long paths");
}

}  // namespace

AcknowledgedJobs::AcknowledgedJobs(std::filesystem::path file, const SQLite::Database& table)
    : path_(std::move(file)),
      file_(::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600)) {
  if (!file_) throw_errno("cannot open " + path_.string());
  newest_ = parse_number<int64_t>(read_file_start(path_, kDigits).value_or("")).value_or(0);
  // The highest number that a job has ever had, deleted ones included.
  auto query = prepare(table, "SELECT seq FROM sqlite_sequence WHERE name = 'jobs'");
  const int64_t last = query.executeStep() ? query.getColumn(0).getInt64() : 0;
  if (newest_ <= last) return;
  throw std::runtime_error(fmt::format(
      "the job table has lost jobs: job number {} was acknowledged, and its newest one is number "
      "{}. Restore a backup (docs/operations.md), or remove {} to go on without them",
      newest_, last, path_.string()));
}

void AcknowledgedJobs::put(int64_t number) {
  const Lock lock(mutex_);
  newest_ = std::max(newest_, number);
  // A fixed length overwrites the file in place, which works on a full disk.
  const std::string text = fmt::format("{:0{}}", newest_, kDigits);
  if (::pwrite(file_.get(), text.data(), text.size(), 0) != std::ssize(text)) {
    spdlog::error("cannot write {}", path_.string());
  }
}

JobStore::JobStore(const std::filesystem::path& database, int max_queued,
                   TableClock::Wall::time_point now)
    : max_queued_(max_queued),
      clock_(now),
      table_(open_job_tables(database)),
      acknowledged_(database.string() + ".acknowledged", table_),
      reader_(database.string(), SQLite::OPEN_READWRITE, kBusyTimeoutMs),
      lister_(database.string(), SQLite::OPEN_READWRITE, kBusyTimeoutMs) {
  constexpr int kNewest = 100;
  auto succeeded = prepare(table_, kSelectJobs + "state = ? ORDER BY number DESC LIMIT ?",
                           v1::Job::SUCCEEDED, kNewest);
  while (succeeded.executeStep()) {
    totals_.last_success =
        std::max(totals_.last_success, unix_time(row_of(table_, succeeded).job.end_time()));
  }
}

void JobStore::transact(const std::function<void()>& body) {
  {
    const Lock lock(mutex_);
    uncommitted_ = {};
    uncommitted_changes_.clear();
    SQLite::Transaction transaction(table_, SQLite::TransactionBehavior::IMMEDIATE);
    body();
    transaction.commit();
    totals_.created += uncommitted_.created;
    totals_.attempts += uncommitted_.attempts;
    totals_.events += uncommitted_.events;
    for (const auto& [end, count] : uncommitted_.ended) totals_.ended[end] += count;
    totals_.last_success = std::max(totals_.last_success, uncommitted_.last_success);
    recent_.add(std::exchange(uncommitted_changes_, {}));
  }
  changes_.notify();
}

JobRow JobStore::load(const std::string& id) {
  std::optional<JobRow> row = find_row(table_, id);
  if (!row) throw job_not_found(id);
  return *row;
}

void JobStore::notify_at(int64_t number, int64_t at_ms) {
  prepare(table_, "DELETE FROM notifications WHERE job = ?", number).exec();
  if (at_ms > 0) {
    prepare(table_, "INSERT INTO notifications VALUES (?, ?)", number, at_ms).exec();
  }
}

void JobStore::append(JobRow& row, v1::Event event) {
  event.set_seq(++row.last_event);
  *event.mutable_time() = TimeUtil::GetCurrentTime();
  prepare(table_, "INSERT INTO events VALUES (?, ?, ?)", row.number, row.last_event,
          Blob{event.SerializeAsString()})
      .exec();
  ++uncommitted_.events;
}

void JobStore::tell(JobRow& row, const v1::Progress& progress) {
  *row.job.mutable_progress() = progress;
  v1::Event event;
  *event.mutable_progress() = progress;
  append(row, std::move(event));
  save(row);
}

void JobStore::save(JobRow& row) {
  if (std::exchange(row.damaged, false)) {
    prepare(table_, "INSERT INTO quarantine SELECT id, body FROM jobs WHERE number = ?", row.number)
        .exec();
  }
  prepare(table_, "UPDATE jobs SET state = ?, last_event = ?, body = ? WHERE number = ?",
          row.job.state(), row.last_event, Blob{row.job.SerializeAsString()}, row.number)
      .exec();
  uncommitted_changes_.push_back({.number = row.number,
                                  .before = std::exchange(row.stored_state, row.job.state()),
                                  .job = std::make_shared<v1::Job>(basic_view(row.job))});
}

void JobStore::enter(JobRow& row, v1::Job::State state, const std::string& reason) {
  v1::Job& job = row.job;
  job.set_state(state);
  if (state != v1::Job::RUNNING) job.clear_stop_reason();  // belongs to the ended attempt
  if (state == v1::Job::QUEUED) {
    job.clear_gpus();
    insert_into_queue(table_, row.number, job);
  } else {
    prepare(table_, "DELETE FROM queue WHERE job = ?", row.number).exec();
  }
  const auto now = TimeUtil::GetCurrentTime();
  if (has_ended(state)) {
    job.clear_fetching();
    job.clear_pushing();
    *job.mutable_end_time() = now;
    job.set_cancelling(false);
    job.clear_retry_time();
    prepare(table_, "DELETE FROM claims WHERE job = ?", row.number).exec();
    if (job.options().has_ttl_seconds_after_finished()) {
      const int64_t ttl_ms = int64_t{1000} * job.options().ttl_seconds_after_finished();
      prepare(table_, "INSERT OR REPLACE INTO expiries VALUES (?, ?)", row.number,
              clock_.now_ms() + ttl_ms)
          .exec();
    }
    // Ranks may report any code; statistics have those that are known.
    constexpr std::array<const char*, 9> kCounted = {
        "",    kInvalidInput,     kRankFailed,  kRankKilled, kLaunchFailed,
        kLost, kDeadlineExceeded, kFetchFailed, kPushFailed};
    const std::string& code = job.error().code();
    const bool known = std::ranges::find(kCounted, code) != kCounted.end();
    ++uncommitted_.ended[{state, known ? code : "OTHER"}];
    if (state == v1::Job::SUCCEEDED) uncommitted_.last_success = unix_time(job.end_time());
  }
  if (job.options().has_notify()) {
    job.clear_notification();
    notify_at(row.number, has_ended(state) ? clock_.now_ms() : 0);
    if (has_ended(state)) {
      v1::Notification& notification = *job.mutable_notification();
      notification.set_state(v1::Notification::PENDING);
      notification.set_id(job.id() + "." + std::to_string(row.last_event + 1));
      *notification.mutable_next_attempt_time() = now;
    }
  }
  v1::Event event;
  event.mutable_state_change()->set_state(state);
  event.mutable_state_change()->set_attempt(job.attempt());
  event.mutable_state_change()->set_reason(reason);
  append(row, std::move(event));
  save(row);
}

std::optional<v1::Job> JobStore::request_match(const std::string& request_id,
                                               const v1::JobSpec& spec, const std::string& owner,
                                               const v1::JobOptions& options,
                                               const std::optional<v1::SweepSpec>& sweep) {
  if (request_id.empty()) return std::nullopt;
  auto query = prepare(table_, kSelectJobs + "owner = ? AND request_id = ?", owner, request_id);
  if (!query.executeStep()) return std::nullopt;
  v1::Job job = row_of(table_, query).job;
  // Specs are equal if they are once their methods are completed with defaults.
  v1::JobSpec stored = job.spec();
  v1::JobSpec given = spec;
  complete_method(*stored.mutable_method());
  complete_method(*given.mutable_method());
  using google::protobuf::util::MessageDifferencer;
  if (!(MessageDifferencer::Equals(stored, given) &&
        MessageDifferencer::Equals(job.options(), options) &&
        job.has_sweep() == sweep.has_value() &&
        (!sweep || MessageDifferencer::Equals(job.sweep(), *sweep)))) {
    throw ApiError(
        grpc::StatusCode::ALREADY_EXISTS, "REQUEST_ID_REUSED",
        "request_id '" + request_id + "' belongs to job " + job.id() +
            ", which has a different spec or options; use a new request_id for a new job",
        {{"id", job.id()}, {"request_id", request_id}});
  }
  return job;
}

std::optional<v1::Job> JobStore::find_request(const std::string& request_id,
                                              const v1::JobSpec& spec, const std::string& owner,
                                              const v1::JobOptions& options,
                                              const std::optional<v1::SweepSpec>& sweep) {
  const Lock lock(mutex_);
  return request_match(request_id, spec, owner, options, sweep);
}

void JobStore::claim(int64_t number, const std::vector<PathClaim>& claims) {
  limit_claims(claims);
  const std::string select =
      "SELECT id, path FROM claims JOIN jobs ON job = jobs.number "
      "WHERE job != ? AND (writes OR ?) AND ";
  std::set<std::pair<std::string, int>> looked_up;  // directories that several claims share
  for (const PathClaim& claim : claims) {
    const auto refuse_found = [&](SQLite::Statement query) {
      if (!query.executeStep()) return;
      const std::string id = query.getColumn(0).getString();
      throw ApiError(grpc::StatusCode::FAILED_PRECONDITION, "OUTPUT_IN_USE",
                     claim.field + ": " + claim.path + " collides with " +
                         query.getColumn(1).getString() + ", which job " + id +
                         " uses and that has not ended",
                     {{"id", id}, {"field", claim.field}});
    };
    const int writes = claim.writes ? 1 : 0;
    for (std::filesystem::path at = claim.path; looked_up.emplace(at.string(), writes).second;
         at = at.parent_path()) {
      if (looked_up.size() > kMostLookUps) refuse_claims("directories");
      refuse_found(prepare(table_, select + "path = ?", number, writes, at.string()));
    }
    // Range of paths below this one: '0' follows '/'.
    refuse_found(prepare(table_, select + "path > ? AND path < ?", number, writes, claim.path + "/",
                         claim.path + "0"));
  }
  for (const PathClaim& claim : claims) {
    prepare(table_, "INSERT OR IGNORE INTO claims VALUES (?, ?, ?)", claim.path, number,
            static_cast<int>(claim.writes))
        .exec();
  }
}

void JobStore::refuse_full_queue(const std::string& owner) {
  auto all = prepare(table_, "SELECT count(*) FROM queue");
  all.executeStep();
  const bool full = all.getColumn(0).getInt() >= kMaxQueuedJobs;
  auto own = prepare(table_, "SELECT count(*) FROM queue WHERE owner = ?", owner);
  own.executeStep();
  if (!full && (owner.empty() || own.getColumn(0).getInt() < max_queued_)) return;
  throw try_again(
      grpc::StatusCode::RESOURCE_EXHAUSTED, "QUEUE_FULL",
      fmt::format("{} jobs{} are already waiting; try again later",
                  full ? kMaxQueuedJobs : max_queued_, full ? "" : " of '" + owner + "'"),
      std::chrono::seconds(30));
}

v1::Job JobStore::create(const NewJob& job) {
  JobRow row;
  transact([&]() DOTRESIZE_REQUIRES(mutex_) {
    if (std::optional<v1::Job> earlier =
            request_match(job.request_id, job.spec, job.owner, job.options, job.sweep)) {
      row.job = *earlier;
      return;
    }
    refuse_full_queue(job.owner);
    row = insert_row(table_, job);
    claim(row.number, job.claims);
    enter(row, v1::Job::QUEUED, "");
    ++uncommitted_.created;
  });
  if (row.number > 0) acknowledged_.put(row.number);
  return row.job;
}

v1::Job JobStore::request_cancel(const std::string& id, v1::Job::State* before,
                                 const Step& before_commit) {
  JobRow row;
  transact([&]() DOTRESIZE_REQUIRES(mutex_) {
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
  transact([&]() DOTRESIZE_REQUIRES(mutex_) {
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
    prepare(table_, "DELETE FROM expiries WHERE job = ?", row.number).exec();
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
  transact([&]() DOTRESIZE_REQUIRES(mutex_) {
    const JobRow row = load(id);
    if (!has_ended(row.job.state())) {
      throw ApiError(grpc::StatusCode::FAILED_PRECONDITION, "JOB_NOT_ENDED",
                     "job " + id + " is " + v1::Job::State_Name(row.job.state()) +
                         "; cancel it and wait for its end first",
                     {{"id", id}});
    }
    // Events, attempts and all else of the job go with its row.
    prepare(table_, "DELETE FROM jobs WHERE number = ?", row.number).exec();
    uncommitted_changes_.push_back({.number = row.number,
                                    .before = row.job.state(),
                                    .deleted = true,
                                    .job = std::make_shared<v1::Job>(basic_view(row.job))});
    before_commit(row.job, row.output);
  });
}

}  // namespace dotresize
