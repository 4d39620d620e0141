#pragma once

namespace dotresize {

/// Flushes standard output. Returns `exit_code`, or kExitJobFailed after a line on stderr if what
/// the program has printed did not reach its reader: a full disk, a closed pipe.
int checked_output(const char* program, int exit_code);

}  // namespace dotresize
