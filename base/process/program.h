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

}  // namespace dotresize
