#pragma once

#include <exception>
#include <optional>
#include <string>
#include <string_view>

namespace dotresize {

// Reasons why a job failed: JobError.code (proto/dotresize/v1/jobs.proto).
inline constexpr char kInvalidInput[] = "INVALID_INPUT";
inline constexpr char kRankFailed[] = "RANK_FAILED";
inline constexpr char kRankKilled[] = "RANK_KILLED";
inline constexpr char kLaunchFailed[] = "LAUNCH_FAILED";
inline constexpr char kLost[] = "LOST";
inline constexpr char kFetchFailed[] = "FETCH_FAILED";
inline constexpr char kPushFailed[] = "PUSH_FAILED";
inline constexpr char kDeadlineExceeded[] = "DEADLINE_EXCEEDED";  ///< stopped at its deadline_s

/// Returns the text of an error for people: "PATH: REASON" for one of std::filesystem.
std::string error_text(const std::exception& error);

/// The failure of a job, or of one of its ranks.
struct Failure {
  std::string code;
  int rank = -1;  ///< -1: no single rank
  std::string host;
  std::string phase;
  std::string message;
};

/// Returns the code for an exit code (base/process/program.h, or 127 of
/// base/process/child_process.h).
const char* failure_code(int exit_code);

/// Returns the failure with printable one-line texts: code and phase of at most 64 bytes, host of
/// 255, message of 2000.
Failure printable(const Failure& failure);

/// Returns the line that a failing rank writes to its log, without a newline:
///   "dotresize-worker: error: rank 1 on HOST in calibrate: MESSAGE".
/// It leaves the code out. Texts are printable, host and phase also cut. A blank in the host, a
/// colon in the phase and an empty host become '?'; an empty phase becomes "start".
std::string failure_line(const Failure& failure);

/// Parses a failure_line(); nothing for any other line. The code is empty.
std::optional<Failure> parse_failure_line(std::string_view line);

}  // namespace dotresize
