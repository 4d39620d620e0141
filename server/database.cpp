#include "server/database.h"

#include <SQLiteCpp/Transaction.h>
#include <sqlite3.h>

#include <stdexcept>
#include <string>

namespace dotresize {
namespace {

constexpr int kSchemaVersion = 1;

// The columns are what queries need; `body` is the whole v1::Job, v1::Event or v1::JobError.
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

}  // namespace

SQLite::Database open_database(const std::filesystem::path& path) {
  SQLite::Database database(path.string(), SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE);
  database.exec("PRAGMA journal_mode=WAL");
  database.exec("PRAGMA synchronous=FULL");
  database.exec("PRAGMA foreign_keys=ON");
  const int version = database.execAndGet("PRAGMA user_version").getInt();
  if (version > kSchemaVersion) {
    throw std::runtime_error(path.string() + " has schema version " + std::to_string(version) +
                             "; this dotresize-server knows up to " +
                             std::to_string(kSchemaVersion));
  }
  if (version == 0) {
    SQLite::Transaction transaction(database);
    database.exec(kSchema);
    database.exec("PRAGMA user_version=" + std::to_string(kSchemaVersion));
    transaction.commit();
  }
  return database;
}

}  // namespace dotresize
