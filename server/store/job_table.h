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

namespace dotresize {

struct NewJob {
  v1::JobSpec spec;
  std::string request_id;  ///< empty: none
  std::string output;      ///< output.path without symbolic links, see job_admission.h
  std::vector<PathClaim> claims;
  std::string owner;  ///< empty: none
  v1::JobOptions options;
  v1::Resources::Launcher launcher = v1::Resources::local;
  int64_t memory = 0;     ///< bytes of the host that all ranks together take
  std::string plan = {};  ///< for people (v1::Job.plan)
  std::optional<v1::SweepSpec> sweep = {};
  v1::SweepSize sweep_size = {};  ///< of a sweep
  std::string traceparent = {};   ///< empty: none
  bool fetching = false;          ///< what it reads is still to be fetched
};

struct JobQuery {
  int limit = 100;
  int64_t before = 0;                  ///< only jobs older than this position; 0: from the newest
  std::vector<v1::Job::State> states;  ///< empty: all
  std::string name;                    ///< empty: all
  std::string owner;                   ///< empty: all
  std::map<std::string, std::string> labels;  ///< that a job must have
  std::string id_prefix = {};                 ///< empty: all
};

/// What the scheduler must know of a job in the queue.
struct QueuedJob {
  std::string id;
  v1::Resources::Device device = v1::Resources::auto_;
  int64_t ranks = 1;   ///< that it takes of this machine
  int64_t memory = 0;  ///< bytes of this machine

  /// Whether it takes nothing here: another launcher than local runs it, or its output is made
  /// already and only to be pushed.
  bool is_remote() const { return ranks == 0; }
};

/// Where a job is.
struct JobPosition {
  int64_t number = 0;
  int64_t last_event = 0;
  v1::Job::State state = v1::Job::STATE_UNSPECIFIED;
};

struct JobPage {
  std::vector<v1::Job> jobs;  ///< newest first
  int64_t next_before = 0;    ///< 0: there are no older ones
};

/// JobError.code of a job whose record can no longer be read: what the table's columns say of it is
/// all that is known.
inline constexpr char kDamagedRecord[] = "DAMAGED_RECORD";

/// A job as it is stored.
struct JobRow {
  int64_t number = 0;  ///< order of creation
  int64_t last_event = 0;
  std::string output;  ///< as in NewJob
  v1::Job job;
  bool damaged = false;  ///< what is stored cannot be read; save() puts it aside
  v1::Job::State stored_state = v1::Job::STATE_UNSPECIFIED;  ///< unspecified: of a new job
};

/// In seconds.
double unix_time(const google::protobuf::Timestamp& time);

/// The statement of JobTable::list; parameter 1 is `before`, 2 the name and 3 the owner if they are
/// asked for, then key and value of each label; 101 and 102 the first and the last id with the
/// prefix, if there is one.
std::string list_sql(const JobQuery& query);

/// The SQL statements on the tables of jobs, events and attempts: rows in, rows out, no rules. Not
/// thread-safe; the caller holds the transactions. Throws SQLite::Exception. A job whose record is
/// damaged has id, name, state, output and attempt alone, and the error kDamagedRecord; a damaged
/// event its number alone.
class JobTable {
 public:
  /// open_job_tables(database), see job_schema.h.
  explicit JobTable(const std::filesystem::path& database);
  /// One more connection to tables that are open already, for reading.
  struct Reader {};
  JobTable(const std::filesystem::path& database, Reader);

  SQLite::Database& database() { return database_; }
  /// In a transaction, first: what is committed afterwards is not seen in it.
  void fix_snapshot();

  std::optional<JobRow> find(const std::string& id);
  std::optional<JobPosition> position(const std::string& id);
  std::optional<v1::Job> find_request(const std::string& request_id);
  /// The paths that a job that has not ended reads and writes.
  void claim(int64_t number, const std::vector<PathClaim>& claims);
  void release(int64_t number);
  struct Conflict {
    std::string id;  ///< the job that has not ended
    std::string path;
    PathClaim claim;  ///< that collides with it
  };
  /// A path of another job than `number` that contains one of these paths or lies in it, if one of
  /// the two is written.
  std::optional<Conflict> find_conflict(int64_t number, const std::vector<PathClaim>& claims);
  /// In the order of creation.
  std::vector<v1::Job> in_states(const std::vector<v1::Job::State>& states);
  /// The row stands in the queue from now on, or not any more.
  void enqueue(const JobRow& row);
  void dequeue(int64_t number);
  /// Moves the retry times of the whole queue, and of what is to be told.
  void shift_retries(int64_t ms);
  /// Of the queue whose retry_time has come, in its order: the first so many that run here, and the
  /// first so many that run elsewhere.
  std::vector<QueuedJob> queued(int limit);
  /// Ids of the first so many of the queue, also those that are not due yet, in its order.
  std::vector<std::string> queue(int limit);
  /// Ids of the first so many of the queue of which something is still to be fetched.
  std::vector<std::string> to_fetch(int limit);
  void save_plan(int64_t number, const std::string& plan);
  /// Place of a job of the queue; 1 is the head.
  int queue_position(int64_t number);
  /// The job is to be deleted then (Unix time in ms); 0: never.
  void expire(int64_t number, int64_t at_ms);
  /// Jobs whose time that is, and of whose end nobody is still to be told.
  std::vector<std::string> expired(int limit);
  /// Somebody is to be told then (Unix time in ms) that the job has ended; 0: nobody is.
  void notify_at(int64_t number, int64_t at_ms);
  /// Jobs for which that time has come, in its order.
  std::vector<std::string> due_notifications(int limit);
  /// Jobs in the queue, of this owner if one is given.
  int count_queued(const std::optional<std::string>& owner);
  std::map<v1::Job::State, int64_t> counts();
  /// When the job at the head of the queue became QUEUED.
  std::optional<google::protobuf::Timestamp> head_queued_since();
  /// Unix time at which one of the newest jobs succeeded last; 0 if none has.
  double last_success();
  JobPage list(const JobQuery& query);

  /// The number of the newest job that there has ever been; 0: none.
  int64_t last_number();
  /// NewJob.plan of the job; empty if it is not known.
  std::string plan(const std::string& id);
  /// A queued job with a new id.
  JobRow insert(const NewJob& job);
  void save(JobRow& row);
  /// With its events and attempts.
  void erase(const JobRow& row);

  /// Gives the event the next number and the current time.
  void append(JobRow& row, v1::Event event);
  /// Of the job of this number.
  std::vector<v1::Event> events_after(int64_t number, int64_t seq, int limit);

  void insert_attempt(const JobRow& row, const std::string& token_sha256);
  /// Empty if there is no such attempt.
  std::string token_sha256(const std::string& id, int attempt);
  /// The first failure of an attempt stays.
  void save_failure(const JobRow& row, int attempt, const v1::JobError& error);
  std::optional<v1::JobError> failure(const JobRow& row, int attempt);

 private:
  /// The row of a query for kJobColumns.
  JobRow row_of(SQLite::Statement& query);
  JobRow damaged_row(SQLite::Statement& query);
  std::vector<v1::Job> jobs_of(SQLite::Statement query);

  SQLite::Database database_;
};

}  // namespace dotresize
