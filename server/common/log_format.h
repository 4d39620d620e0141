#pragma once

#include <spdlog/common.h>

#include <string>

#include "dotresize/v1/jobs.pb.h"

namespace dotresize {

enum class LogFormat {
  kText,  ///< human-readable line: time, level, job (if any), text
  /// One JSON object per line: time, level, message; for a line about a job also its id, attempt
  /// and traceparent.
  kJson,
};

/// Sets up the log of this process: lines on stderr. Call before other threads start.
void set_up_log(LogFormat format);

/// Logs a line about a job and its attempt. Attempt 0: none.
void log_job(spdlog::level::level_enum level, const v1::Job& job, const std::string& message);
void log_job(spdlog::level::level_enum level, const std::string& id, int attempt,
             const std::string& message, const std::string& traceparent = "");

}  // namespace dotresize
