#pragma once

#include <SQLiteCpp/Column.h>
#include <SQLiteCpp/Statement.h>

#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "dotresize/v1/jobs.pb.h"

namespace dotresize {

inline constexpr int kBusyTimeoutMs = 2000;  // wait for another program, such as a backup

/// Parses a column's message; nullopt if it is damaged.
template <class Message>
std::optional<Message> parsed(const SQLite::Column& column) {
  Message message;
  if (!message.ParseFromArray(column.getBlob(), column.getBytes())) return std::nullopt;
  return message;
}

struct Blob {
  std::string bytes;
};

template <class Value>
void bind(SQLite::Statement& statement, int index, const Value& value) {
  if constexpr (std::is_same_v<Value, Blob>) {
    statement.bind(index, value.bytes.data(), static_cast<int>(value.bytes.size()));
  } else {
    statement.bind(index, value);
  }
}

/// Prepares a statement and binds its parameters in order.
template <class... Values>
SQLite::Statement prepare(const SQLite::Database& database, const std::string& sql,
                          const Values&... values) {
  SQLite::Statement statement(database, sql);
  int index = 0;
  (bind(statement, ++index, values), ...);
  return statement;
}

/// Returns "state IN (1, 2)".
inline std::string is_one_of(const std::vector<v1::Job::State>& states) {
  std::string numbers;
  for (const v1::Job::State state : states) {
    numbers += (numbers.empty() ? "" : ", ") + std::to_string(static_cast<int>(state));
  }
  return "state IN (" + numbers + ")";
}

}  // namespace dotresize
