#pragma once

#include <spdlog/common.h>

#include <string>

#include "dotresize/v1/jobs.pb.h"

namespace dotresize {

enum class LogFormat {
  kText,  ///< for people: a line with time, level and text, after the job that it is about
  /// An object a line: time, level, message, and of what concerns a job its id, attempt and
  /// traceparent.
  kJson,
};

/// The log of this process: lines on stderr. Before other threads start.
void set_up_log(LogFormat format);

/// A line about a job, and its attempt if there is one.
void log_job(spdlog::level::level_enum level, const v1::Job& job, const std::string& message);
void log_job(spdlog::level::level_enum level, const std::string& id, int attempt,
             const std::string& message);

}  // namespace dotresize
