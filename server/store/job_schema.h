#pragma once

#include <SQLiteCpp/Column.h>
#include <SQLiteCpp/Database.h>
#include <SQLiteCpp/Statement.h>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "dotresize/v1/jobs.pb.h"

namespace dotresize {

inline constexpr int kBusyTimeoutMs = 2000;  // wait for another program, such as a backup

/// Opens or creates the job tables. Uses a write-ahead log, synchronous=FULL (a committed
/// transaction survives a crash of the machine) and foreign keys. PRAGMA user_version is the
/// schema's version. Throws std::runtime_error for tables of another version and for a damaged
/// file.
SQLite::Database open_job_tables(const std::filesystem::path& path);

/// Value of retry_ms for queued jobs with inputs to fetch. Compare loosely:
/// JobStore::shift_waits() moves it when the clock is set.
inline constexpr int64_t kUnfetchedMs = int64_t{1} << 60;

/// Inserts or replaces a job's row in the queue.
void insert_into_queue(const SQLite::Database& database, int64_t number, const v1::Job& job);

struct Blob {
  std::string bytes;
};

/// Prepares a statement and binds its parameters in order.
template <class... Values>
SQLite::Statement prepare(const SQLite::Database& database, const std::string& sql,
                          const Values&... values) {
  SQLite::Statement statement(database, sql);
  int index = 0;
  [[maybe_unused]] const auto bind_next = [&](const auto& value) {
    ++index;
    if constexpr (std::is_same_v<decltype(value), const Blob&>) {
      statement.bind(index, value.bytes.data(), static_cast<int>(value.bytes.size()));
    } else {
      statement.bind(index, value);
    }
  };
  (bind_next(values), ...);
  return statement;
}

/// Returns the first column of all rows.
std::vector<std::string> ids_of(SQLite::Statement query);

/// Parses a column's message; nullopt if it is damaged.
template <class Message>
std::optional<Message> parsed(const SQLite::Column& column) {
  Message message;
  if (!message.ParseFromArray(column.getBlob(), column.getBytes())) return std::nullopt;
  return message;
}

/// Returns "state IN (1, 2)".
std::string is_one_of(const std::vector<v1::Job::State>& states);

}  // namespace dotresize
