#pragma once

#include <stdexcept>
#include <string>

namespace dotresize {

/// How every program of the project ends (docs/cli.md).
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

/// The user's data are at fault: job file, model, tokens. Exit code 65, or INVALID_ARGUMENT over
/// gRPC. The message names the file, the key or tensor, the value, and what would be right.
class InputError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// An argument is missing that only the data show to be needed. Exit code 64.
class UsageError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// The job was asked to end (SIGTERM, SIGINT, CancelJob). Exit code 2.
class Cancelled : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace dotresize
