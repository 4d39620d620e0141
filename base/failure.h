#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace dotresize {

// Why a job has failed: JobError.code (proto/dotresize/v1/jobs.proto).
inline constexpr char kInvalidInput[] = "INVALID_INPUT";
inline constexpr char kRankFailed[] = "RANK_FAILED";
inline constexpr char kRankKilled[] = "RANK_KILLED";
inline constexpr char kLaunchFailed[] = "LAUNCH_FAILED";
inline constexpr char kLost[] = "LOST";
inline constexpr char kFetchFailed[] = "FETCH_FAILED";
inline constexpr char kPushFailed[] = "PUSH_FAILED";

/// The failure of a job, or of one of its ranks.
struct Failure {
  std::string code;
  int rank = -1;  ///< -1: no single rank
  std::string host;
  std::string phase;
  std::string message;
};

/// The code for what ended with this exit code (base/program.h, or 127 of base/child_process.h).
const char* failure_code(int exit_code);

/// The same failure with printable one-line texts: code and phase of at most 64 bytes, host of 255,
/// message of 2000.
Failure printable(const Failure& failure);

/// The line that a failing rank writes to its log, without a newline:
/// "dotresize-worker: error: rank 1 on HOST in calibrate: MESSAGE". The code is not in it. Texts
/// are printable, host and phase also cut; a blank in the host and a colon in the phase become '?',
/// and so does an empty host; an empty phase is "start".
std::string failure_line(const Failure& failure);

/// What failure_line() has written; nothing for any other line. The code is empty.
std::optional<Failure> parse_failure_line(std::string_view line);

}  // namespace dotresize
