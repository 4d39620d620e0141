#pragma once

#include <chrono>

#include "worker/commands/progress.h"

namespace dotresize {

/// Writes progress to stderr for the program that started this one (`--progress json`). The format
/// is a JSON text sequence (RFC 7464: each record begins with the control character RS and ends
/// with a newline) with the keys of the message Progress of proto/dotresize/v1/jobs.proto. One
/// record when the phase changes, then at most ten a second. Thread-safe.
class ProgressRecords {
 public:
  void show(const ProgressState& state);

 private:
  ProgressThrottle throttle_{std::chrono::milliseconds(100)};
};

}  // namespace dotresize
