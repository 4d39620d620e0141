#include "server/store/job_schema.h"

#include <SQLiteCpp/Statement.h>
#include <SQLiteCpp/Transaction.h>
#include <google/protobuf/util/time_util.h>

#include <stdexcept>
#include <string>

#include "server/store/resources.h"
#include "server/store/sql.h"

namespace dotresize {
namespace {

// Version 4 has the tables of 3, and jobs that are sweeps; an earlier server would run their base
// job. Version 5 has the tables of 4; a spec without a method's name leaves the method open.
constexpr int kSchemaVersion = 6;

// Columns hold what queries need; `body` is the whole v1::Job, v1::Event or v1::JobError.
constexpr char kSchema[] = R"(
CREATE TABLE jobs (
  number     INTEGER PRIMARY KEY AUTOINCREMENT,  -- order of creation
  id         TEXT NOT NULL UNIQUE,
  request_id TEXT UNIQUE,
  name       TEXT NOT NULL,
  state      INTEGER NOT NULL,
  output     TEXT NOT NULL,                      -- path without symbolic links
  last_event INTEGER NOT NULL,
  body       BLOB NOT NULL
);
CREATE INDEX jobs_by_state ON jobs (state, number);
CREATE TABLE events (
  job  INTEGER NOT NULL REFERENCES jobs (number) ON DELETE CASCADE,
  seq  INTEGER NOT NULL,
  body BLOB NOT NULL,
  PRIMARY KEY (job, seq)
) WITHOUT ROWID;
CREATE TABLE attempts (
  job          INTEGER NOT NULL REFERENCES jobs (number) ON DELETE CASCADE,
  number       INTEGER NOT NULL,
  token_sha256 BLOB NOT NULL,
  failure      BLOB,                             -- what a rank has reported
  PRIMARY KEY (job, number)
) WITHOUT ROWID;
)";

// Added in version 2. Claims: paths, without symbolic links, that a job reads and writes until it
// has ended.
constexpr char kSchema2[] = R"(
CREATE TABLE claims (
  path   TEXT NOT NULL,
  job    INTEGER NOT NULL REFERENCES jobs (number) ON DELETE CASCADE,
  writes INTEGER NOT NULL,
  PRIMARY KEY (path, job, writes)
) WITHOUT ROWID;
CREATE INDEX claims_by_job ON claims (job);
CREATE INDEX jobs_by_name ON jobs (name, number);
CREATE TABLE quarantine (                        -- bytes that could not be read
  id   TEXT NOT NULL,
  body BLOB NOT NULL
);
ALTER TABLE jobs ADD COLUMN retry_ms INTEGER NOT NULL DEFAULT 0;  -- Unix time of retry_time
)";

// Added in version 3.
constexpr char kSchema3[] = R"(
ALTER TABLE jobs DROP COLUMN retry_ms;
ALTER TABLE jobs ADD COLUMN owner TEXT NOT NULL DEFAULT '';
CREATE INDEX jobs_by_owner ON jobs (owner, number);
CREATE TABLE queue (                             -- the QUEUED jobs
  job      INTEGER PRIMARY KEY REFERENCES jobs (number) ON DELETE CASCADE,
  priority INTEGER NOT NULL,
  retry_ms INTEGER NOT NULL,                     -- Unix time of retry_time
  device   INTEGER NOT NULL,
  ranks    INTEGER NOT NULL,
  memory   INTEGER NOT NULL,                     -- bytes
  owner    TEXT NOT NULL
);
CREATE INDEX queue_by_owner ON queue (owner);
CREATE INDEX queue_order ON queue (priority DESC, job);
CREATE TABLE labels (
  key   TEXT NOT NULL,
  value TEXT NOT NULL,
  job   INTEGER NOT NULL REFERENCES jobs (number) ON DELETE CASCADE,
  PRIMARY KEY (key, value, job)
) WITHOUT ROWID;
CREATE INDEX labels_by_job ON labels (job);
CREATE TABLE expiries (                          -- when ended jobs are to be deleted
  job   INTEGER PRIMARY KEY REFERENCES jobs (number) ON DELETE CASCADE,
  at_ms INTEGER NOT NULL
);
CREATE INDEX expiries_by_time ON expiries (at_ms);
)";

// Added in version 6.
constexpr char kSchema6[] = R"(
CREATE TABLE plans (                             -- of jobs as they were admitted, for people
  job  INTEGER PRIMARY KEY REFERENCES jobs (number) ON DELETE CASCADE,
  plan TEXT NOT NULL
);
CREATE TABLE notifications (                     -- of ended jobs, that have not been delivered
  job    INTEGER PRIMARY KEY REFERENCES jobs (number) ON DELETE CASCADE,
  due_ms INTEGER NOT NULL                        -- Unix time of the next attempt
);
CREATE INDEX notifications_by_time ON notifications (due_ms);
)";

// Created in every version: SQLite keeps indexes up to date even for a server that does not know
// them.
constexpr char kIndexes[] = R"(
CREATE INDEX IF NOT EXISTS jobs_by_name_and_state ON jobs (name, state, number);
CREATE INDEX IF NOT EXISTS jobs_by_owner_and_state ON jobs (owner, state, number);
CREATE INDEX IF NOT EXISTS queue_by_place ON queue ((ranks = 0), priority DESC, job);
)";

/// Creates the queue, and fills it with the jobs that an earlier version has queued.
void add_queue(SQLite::Database& database) {
  database.exec(kSchema3);
  auto query =
      prepare(database, "SELECT number, body FROM jobs WHERE " + is_one_of({v1::Job::QUEUED}));
  while (query.executeStep()) {
    insert_into_queue(database, query.getColumn(0).getInt64(),
                      parsed<v1::Job>(query.getColumn(1)).value_or(v1::Job()));
  }
  auto owned = prepare(database, "SELECT number, body FROM jobs");
  while (owned.executeStep()) {
    const auto job = parsed<v1::Job>(owned.getColumn(1));
    if (!job || !job->has_owner()) continue;
    prepare(database, "UPDATE jobs SET owner = ? WHERE number = ?", job->owner(),
            owned.getColumn(0).getInt64())
        .exec();
  }
}

/// Creates the claims, and fills them from the jobs that an earlier version has accepted.
void add_claims(SQLite::Database& database) {
  database.exec(kSchema2);
  auto query =
      prepare(database, "SELECT number, output, body FROM jobs WHERE " +
                            is_one_of({v1::Job::QUEUED, v1::Job::STARTING, v1::Job::RUNNING}));
  while (query.executeStep()) {
    v1::JobSpec spec = parsed<v1::Job>(query.getColumn(2)).value_or(v1::Job()).spec();
    spec.mutable_output()->set_path(query.getColumn(1).getString());
    insert_claims(database, query.getColumn(0).getInt64(), claims_of(spec));
  }
}

/// Stores the method's name in jobs that have none: they meant pca_dotresize, but since version 5 a
/// spec without a name may mean another method.
void name_methods(SQLite::Database& database) {
  auto query = prepare(database, "SELECT number, body FROM jobs");
  while (query.executeStep()) {
    auto job = parsed<v1::Job>(query.getColumn(1));
    if (!job || !job->has_spec() || job->spec().method().has_name()) continue;
    job->mutable_spec()->mutable_method()->set_name(v1::Method::pca_dotresize);
    prepare(database, "UPDATE jobs SET body = ? WHERE number = ?", Blob{job->SerializeAsString()},
            query.getColumn(0).getInt64())
        .exec();
  }
}

void require_sound(const SQLite::Database& database) {
  SQLite::Statement check(database, "PRAGMA integrity_check(1)");
  check.executeStep();
  const std::string finding = check.getColumn(0).getString();
  if (finding != "ok") throw std::runtime_error(finding);
}

SQLite::Database open_checked(const std::filesystem::path& path) {
  SQLite::Database database(path.string(), SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE);
  database.setBusyTimeout(kBusyTimeoutMs);
  database.exec("PRAGMA journal_mode=WAL");
  database.exec("PRAGMA synchronous=FULL");
  database.exec("PRAGMA foreign_keys=ON");
  require_sound(database);
  return database;
}

}  // namespace

void insert_into_queue(const SQLite::Database& database, int64_t number, const v1::Job& job) {
  const v1::Resources& resources = job.spec().resources();
  const int64_t ranks = ranks_at_once(job);
  const bool here = runs_here(job) && !job.pushing();
  prepare(database, "INSERT OR REPLACE INTO queue VALUES (?, ?, ?, ?, ?, ?, ?)", number,
          job.options().priority(),
          job.fetching()
              ? kUnfetchedMs
              : google::protobuf::util::TimeUtil::TimestampToMilliseconds(job.retry_time()),
          static_cast<int>(resources.device()), here ? ranks : 0, here ? job.memory_bytes() : 0,
          job.owner())
      .exec();
}

void insert_claims(const SQLite::Database& database, int64_t number,
                   const std::vector<PathClaim>& claims) {
  for (const PathClaim& claim : claims) {
    prepare(database, "INSERT OR IGNORE INTO claims VALUES (?, ?, ?)", claim.path, number,
            static_cast<int>(claim.writes))
        .exec();
  }
}

SQLite::Database open_job_tables(const std::filesystem::path& path) try {
  SQLite::Database database = open_checked(path);
  const int version = database.execAndGet("PRAGMA user_version").getInt();
  if (version > kSchemaVersion) {
    throw std::runtime_error(path.string() + " has schema version " + std::to_string(version) +
                             "; this dotresize-server knows up to " +
                             std::to_string(kSchemaVersion));
  }
  if (version < kSchemaVersion) {
    SQLite::Transaction transaction(database);
    if (version < 1) database.exec(kSchema);
    if (version < 2) add_claims(database);
    if (version < 3) add_queue(database);
    if (version < 5) name_methods(database);
    if (version < 6) database.exec(kSchema6);
    database.exec("PRAGMA user_version=" + std::to_string(kSchemaVersion));
    transaction.commit();
  }
  database.exec(kIndexes);
  return database;
} catch (const SQLite::Exception& error) {
  throw std::runtime_error(path.string() + ": " + error.what());
}

}  // namespace dotresize
