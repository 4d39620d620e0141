#include "server/store/job_schema.h"

#include <SQLiteCpp/Transaction.h>
#include <google/protobuf/util/time_util.h>

#include <stdexcept>
#include <string>

#include "server/store/resources.h"

namespace dotresize {
namespace {

constexpr int kSchemaVersion = 8;

// Columns hold what queries need; `body` is the whole v1::Job, v1::Event or v1::JobError. Claims:
// paths, without symbolic links, that a job reads and writes until it has ended.
constexpr char kSchema[] = R"(
CREATE TABLE jobs (
  number     INTEGER PRIMARY KEY AUTOINCREMENT,  -- order of creation
  id         TEXT NOT NULL UNIQUE,
  request_id TEXT,                               -- each owner's own
  name       TEXT NOT NULL,
  state      INTEGER NOT NULL,
  output     TEXT NOT NULL,                      -- path without symbolic links
  last_event INTEGER NOT NULL,
  body       BLOB NOT NULL,
  owner      TEXT NOT NULL DEFAULT ''
);
CREATE UNIQUE INDEX jobs_by_request ON jobs (owner, request_id);
CREATE INDEX jobs_by_state ON jobs (state, number);
CREATE INDEX jobs_by_name ON jobs (name, number);
CREATE INDEX jobs_by_owner ON jobs (owner, number);
CREATE INDEX jobs_by_name_and_state ON jobs (name, state, number);
CREATE INDEX jobs_by_owner_and_state ON jobs (owner, state, number);
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
CREATE TABLE claims (
  path   TEXT NOT NULL,
  job    INTEGER NOT NULL REFERENCES jobs (number) ON DELETE CASCADE,
  writes INTEGER NOT NULL,
  PRIMARY KEY (path, job, writes)
) WITHOUT ROWID;
CREATE INDEX claims_by_job ON claims (job);
CREATE TABLE quarantine (                        -- bytes that could not be read
  id   TEXT NOT NULL,
  body BLOB NOT NULL
);
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
CREATE INDEX queue_by_place ON queue ((ranks = 0), priority DESC, job);
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

std::vector<std::string> ids_of(SQLite::Statement query) {
  std::vector<std::string> ids;
  while (query.executeStep()) ids.push_back(query.getColumn(0).getString());
  return ids;
}

std::string is_one_of(const std::vector<v1::Job::State>& states) {
  std::string numbers;
  for (const v1::Job::State state : states) {
    numbers += (numbers.empty() ? "" : ", ") + std::to_string(static_cast<int>(state));
  }
  return "state IN (" + numbers + ")";
}

SQLite::Database open_job_tables(const std::filesystem::path& path) try {
  SQLite::Database database(path.string(), SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE);
  database.setBusyTimeout(kBusyTimeoutMs);
  database.exec("PRAGMA journal_mode=WAL");
  database.exec("PRAGMA synchronous=FULL");
  database.exec("PRAGMA foreign_keys=ON");
  const std::string finding = database.execAndGet("PRAGMA integrity_check(1)").getString();
  if (finding != "ok") throw std::runtime_error(finding);
  const int version = database.execAndGet("PRAGMA user_version").getInt();
  if (version == 0) {
    SQLite::Transaction transaction(database);
    database.exec(kSchema);
    database.exec("PRAGMA user_version=" + std::to_string(kSchemaVersion));
    transaction.commit();
  } else if (version != kSchemaVersion) {
    throw std::runtime_error(path.string() + " has schema version " + std::to_string(version) +
                             "; this dotresize-server reads and writes version " +
                             std::to_string(kSchemaVersion) +
                             ": use another --state, or the server that wrote it");
  }
  return database;
} catch (const SQLite::Exception& error) {
  throw std::runtime_error(path.string() + ": " + error.what());
}

}  // namespace dotresize
