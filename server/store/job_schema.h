#pragma once

#include <SQLiteCpp/Database.h>

#include <cstdint>
#include <filesystem>
#include <vector>

#include "dotresize/v1/jobs.pb.h"
#include "server/access/path_policy.h"

namespace dotresize {

/// Opens or creates the tables of jobs; those of an earlier version get what they lack, in one
/// transaction: write-ahead log, synchronous=FULL (a committed transaction survives a crash of the
/// machine), foreign keys. The schema's version is PRAGMA user_version. Throws std::runtime_error
/// for tables that a newer version has made, and for a file that is damaged.
SQLite::Database open_job_tables(const std::filesystem::path& path);

/// retry_ms of a job in the queue of which something is still to be fetched, more or less: the
/// clock may be set.
inline constexpr int64_t kUnfetchedMs = int64_t{1} << 60;

/// The row of the queue of the job with this number.
void insert_into_queue(const SQLite::Database& database, int64_t number, const v1::Job& job);
/// The rows of the paths that it reads and writes.
void insert_claims(const SQLite::Database& database, int64_t number,
                   const std::vector<PathClaim>& claims);

}  // namespace dotresize
