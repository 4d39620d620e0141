#pragma once

namespace dotresize {

/// Exit codes of every program of the project (docs/cli.md).
enum ExitCode : int {
  kExitOk = 0,
  kExitJobFailed = 1,
  kExitCancelled = 2,
  kExitUsage = 64,
  kExitBadData = 65,
  kExitUnavailable = 69,
  kExitTryAgain = 75,
  kExitDenied = 77,
};

/// The project's version, as CMakeLists.txt states it.
inline constexpr char kVersion[] = DOTRESIZE_VERSION;

/// Flushes standard output. Returns `exit_code`, or kExitJobFailed after a line on stderr if what
/// the program has printed did not reach its reader: a full disk, a closed pipe.
int checked_output(const char* program, int exit_code);

}  // namespace dotresize
