#pragma once

#include <SQLiteCpp/Database.h>

#include <cstdint>
#include <filesystem>
#include <vector>

#include "dotresize/v1/jobs.pb.h"
#include "server/access/path_policy.h"

namespace dotresize {

/// Opens or creates the job tables, and migrates those of an earlier version in one transaction.
/// Uses a write-ahead log, synchronous=FULL (a committed transaction survives a crash of the
/// machine) and foreign keys. PRAGMA user_version is the schema's version. Throws
/// std::runtime_error for tables of a newer version and for a damaged file.
SQLite::Database open_job_tables(const std::filesystem::path& path);

/// Value of retry_ms for queued jobs with inputs to fetch. Compare loosely:
/// JobTable::shift_retries() moves it when the clock is set.
inline constexpr int64_t kUnfetchedMs = int64_t{1} << 60;

/// Inserts or replaces a job's row in the queue.
void insert_into_queue(const SQLite::Database& database, int64_t number, const v1::Job& job);
/// Inserts the paths that a job reads and writes.
void insert_claims(const SQLite::Database& database, int64_t number,
                   const std::vector<PathClaim>& claims);

}  // namespace dotresize
