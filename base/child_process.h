#pragma once

#include <string>
#include <vector>

namespace dotresize {

struct ChildResult {
  int exit_code = 0;      ///< 128 + signal where a signal ended it
  std::string last_line;  ///< of its stderr
};

/// Runs a program (argument vector, found through PATH, no shell) to its end, without standard
/// input. Its stdout goes where ours goes, its stderr is read for the last line. Throws
/// std::runtime_error where it cannot be started.
ChildResult run_child(const std::vector<std::string>& command);

}  // namespace dotresize
