#pragma once

#include <SQLiteCpp/Database.h>

#include <filesystem>

namespace dotresize {

/// Opens or creates the job table: write-ahead log, synchronous=FULL (a committed transaction
/// survives a crash of the machine), foreign keys. The schema's version is PRAGMA user_version.
/// Throws SQLite::Exception, or std::runtime_error for a table that a newer version has made.
SQLite::Database open_database(const std::filesystem::path& path);

}  // namespace dotresize
