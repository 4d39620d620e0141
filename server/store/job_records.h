#pragma once

#include <SQLiteCpp/Database.h>
#include <SQLiteCpp/Statement.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "dotresize/v1/jobs.pb.h"
#include "server/store/resources.h"

namespace dotresize {

/// Path without symbolic links, or URL, that a job reads or writes; held from its admission to its
/// end.
struct PathClaim {
  std::string field;  ///< "model.path"
  std::string path;
  bool writes = false;
};

/// Limits of the claims of one job. With links resolved, paths may be much longer than in its spec.
inline constexpr size_t kMostClaims = 20'000;
inline constexpr size_t kMostClaimedBytes = size_t{2} << 20;

/// Throws RESOURCE_EXHAUSTED for a job with too many `what`.
[[noreturn]] void refuse_claims(const std::string& what);

struct NewJob {
  v1::JobSpec spec;
  std::string request_id;  ///< empty: none
  std::string output;      ///< output.path without symbolic links
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
  size_t bytes = 0;           ///< size of the jobs' records
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
  bool damaged = false;  ///< record cannot be read; quarantined when the row is stored
  v1::Job::State stored_state = v1::Job::STATE_UNSPECIFIED;  ///< unspecified: new job
};

/// Beginning of a query for row_of(), up to its WHERE.
extern const std::string kSelectJobs;
/// Converts the current row of a query that begins with kSelectJobs. A job with a damaged record
/// has only id, request id, name, state, output and attempt, and the error kDamagedRecord.
JobRow row_of(const SQLite::Database& database, SQLite::Statement& query);
/// Returns nullopt if there is no job with this id.
std::optional<JobRow> find_row(const SQLite::Database& database, const std::string& id);
/// Inserts a QUEUED job with a new id, its plan and its labels; not its claims.
JobRow insert_row(const SQLite::Database& database, const NewJob& job);

/// Returns the statement of page_of(). Parameters: 1 `before`, 2 name, 3 owner (if asked for), from
/// 4 on key and value of each label, 101 and 102 the first and last id with the prefix (if any).
std::string list_sql(const JobQuery& query);
/// Returns at most `query.limit` jobs and 2 MiB, or one larger job.
JobPage page_of(const SQLite::Database& database, const JobQuery& query);

}  // namespace dotresize
