#pragma once

#include <string>

namespace dotresize {

/// Separates MPI's messages about the end of a run ("MPI_ABORT was invoked on rank 1 ...") from the
/// ranks' own stderr, line by line.
class MpiMessages {
 public:
  /// Returns true if `line` (without newline) is MPI's, and keeps it.
  bool take(const std::string& line);

  /// All kept lines, with newlines.
  const std::string& text() const { return text_; }

 private:
  std::string text_;
  bool in_block_ = false;  ///< between two rules of hyphens
};

}  // namespace dotresize
