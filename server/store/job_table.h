#pragma once

#include <SQLiteCpp/Database.h>
#include <SQLiteCpp/Statement.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "dotresize/v1/jobs.pb.h"
#include "server/access/path_policy.h"
#include "server/store/resources.h"

namespace dotresize {

struct NewJob {
  v1::JobSpec spec;
  std::string request_id;  ///< empty: none
  std::string output;      ///< output.path without symbolic links, see job_admission.h
  std::vector<PathClaim> claims;
  std::string owner;  ///< empty: none
  v1::JobOptions options;
  std::string launcher = kLocalLauncher;
  int64_t memory = 0;     ///< host memory of all ranks together, bytes
  std::string plan = {};  ///< readable plan (v1::Job.plan)
  std::optional<v1::SweepSpec> sweep = {};
  v1::SweepSize sweep_size = {};  ///< set for a sweep only
  std::string traceparent = {};   ///< empty: none
  bool fetching = false;          ///< inputs are still to be fetched
};

struct JobQuery {
  int limit = 100;
  int64_t before = 0;                  ///< only jobs older than this position; 0: from the newest
  std::vector<v1::Job::State> states;  ///< empty: all
  std::string name;                    ///< empty: all
  std::string owner;                   ///< empty: all
  std::map<std::string, std::string> labels;  ///< labels that a job must have
  std::string id_prefix = {};                 ///< empty: all
};

/// Data on a queued job for the scheduler.
struct QueuedJob {
  std::string id;
  v1::Resources::Device device = v1::Resources::auto_;
  int64_t ranks = 1;   ///< ranks on this machine; 0: see is_remote()
  int64_t memory = 0;  ///< bytes of this machine

  /// Returns true if the job takes nothing of this machine: a launcher other than local runs it, or
  /// its output is only to be pushed.
  bool is_remote() const { return ranks == 0; }
};

struct JobPosition {
  int64_t number = 0;
  int64_t last_event = 0;
  v1::Job::State state = v1::Job::STATE_UNSPECIFIED;
};

struct JobPage {
  std::vector<v1::Job> jobs;  ///< newest first
  int64_t next_before = 0;    ///< position for the next page; 0: no older jobs
};

/// JobError.code of a job whose record can no longer be read. Only the table's columns are known
/// then.
inline constexpr char kDamagedRecord[] = "DAMAGED_RECORD";

/// Row of the jobs table.
struct JobRow {
  int64_t number = 0;  ///< order of creation
  int64_t last_event = 0;
  std::string output;  ///< NewJob::output
  v1::Job job;
  bool damaged = false;  ///< record cannot be read; save() quarantines it
  v1::Job::State stored_state = v1::Job::STATE_UNSPECIFIED;  ///< unspecified: new job
};

/// Converts to seconds since 1970.
double unix_time(const google::protobuf::Timestamp& time);

/// Returns the statement of JobTable::list. Parameters: 1 `before`, 2 name, 3 owner (if asked for),
/// from 4 on key and value of each label, 101 and 102 the first and last id with the prefix (if
/// any).
std::string list_sql(const JobQuery& query);

/// SQL statements on the tables of jobs, events and attempts, without rules. Not thread-safe; the
/// caller manages transactions. Throws SQLite::Exception. A job with a damaged record has only id,
/// request id, name, state, output and attempt, and the error kDamagedRecord; a damaged event has
/// only its number.
class JobTable {
 public:
  /// Calls open_job_tables(database), see job_schema.h.
  explicit JobTable(const std::filesystem::path& database);
  /// Tag for a further connection, for reading tables that are already open.
  struct Reader {};
  JobTable(const std::filesystem::path& database, Reader);

  SQLite::Database& database() { return database_; }
  /// Fixes what this transaction sees: nothing that is committed later. Call it first in the
  /// transaction.
  void fix_snapshot();

  std::optional<JobRow> find(const std::string& id);
  std::optional<JobPosition> position(const std::string& id);
  std::optional<v1::Job> find_request(const std::string& request_id);
  /// Inserts the paths that a job reads and writes until it has ended.
  void claim(int64_t number, const std::vector<PathClaim>& claims);
  void release(int64_t number);
  struct Conflict {
    std::string id;  ///< the other job
    std::string path;
    PathClaim claim;  ///< claim that collides with `path`
  };
  /// Finds a path of a job other than `number` that contains one of these paths or lies in it, if
  /// one of the two is written.
  std::optional<Conflict> find_conflict(int64_t number, const std::vector<PathClaim>& claims);
  /// Returns jobs in the order of creation.
  std::vector<v1::Job> in_states(const std::vector<v1::Job::State>& states);
  /// Puts the job into the queue, or replaces its row there.
  void enqueue(const JobRow& row);
  void dequeue(int64_t number);
  /// Moves the retry times of the queue and the due times of notifications by `ms`.
  void shift_retries(int64_t ms);
  /// Returns queued jobs whose retry_time has come, in the queue's order: up to `limit` that run
  /// here and up to `limit` that run elsewhere.
  std::vector<QueuedJob> queued(int limit);
  /// Returns the ids of the first `limit` queued jobs, in the queue's order, including those that
  /// are not due.
  std::vector<std::string> queue(int limit);
  /// Returns the ids of the first `limit` queued jobs whose inputs are still to be fetched.
  std::vector<std::string> to_fetch(int limit);
  void save_plan(int64_t number, const std::string& plan);
  /// Returns a queued job's place; 1 is the head.
  int queue_position(int64_t number);
  /// Sets the time (Unix, ms) to delete the job; 0: never.
  void expire(int64_t number, int64_t at_ms);
  /// Returns the ids of jobs due for deletion that have no notification left to deliver.
  std::vector<std::string> expired(int limit);
  /// Sets the time (Unix, ms) to send the notification of the job's end; 0: none.
  void notify_at(int64_t number, int64_t at_ms);
  /// Returns the ids of jobs with a notification due, longest due first.
  std::vector<std::string> due_notifications(int limit);
  /// Counts queued jobs, of this owner if one is given.
  int count_queued(const std::optional<std::string>& owner);
  std::map<v1::Job::State, int64_t> counts();
  /// Returns the time when the job at the head of the queue became QUEUED.
  std::optional<google::protobuf::Timestamp> head_queued_since();
  /// Returns the latest Unix time at which one of the newest jobs succeeded; 0 if none has.
  double last_success();
  JobPage list(const JobQuery& query);

  /// Returns the highest number that a job has ever had; 0: none.
  int64_t last_number();
  /// Returns NewJob.plan of the job; empty if unknown.
  std::string plan(const std::string& id);
  /// Inserts a QUEUED job with a new id.
  JobRow insert(const NewJob& job);
  void save(JobRow& row);
  /// Deletes the job with its events and attempts.
  void erase(const JobRow& row);

  /// Appends the event with the next number and the current time.
  void append(JobRow& row, v1::Event event);
  /// Returns up to `limit` events of this job after `seq`, in order.
  std::vector<v1::Event> events_after(int64_t number, int64_t seq, int limit);

  void insert_attempt(const JobRow& row, const std::string& token_sha256);
  /// Returns the hash of the attempt's token; empty if the attempt does not exist.
  std::string token_sha256(const std::string& id, int attempt);
  /// Stores an attempt's failure, unless it has one already.
  void save_failure(const JobRow& row, int attempt, const v1::JobError& error);
  std::optional<v1::JobError> failure(const JobRow& row, int attempt);

 private:
  /// Converts the current row of a query for kJobColumns.
  JobRow row_of(SQLite::Statement& query);
  JobRow damaged_row(SQLite::Statement& query);
  std::vector<v1::Job> jobs_of(SQLite::Statement query);

  SQLite::Database database_;
};

}  // namespace dotresize
