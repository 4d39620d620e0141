#pragma once

#include <string>

namespace dotresize {

/// Tells what MPI says on stderr about the end of a run ("MPI_ABORT was invoked on rank 1 ...")
/// from what the ranks say, a line at a time.
class MpiMessages {
 public:
  /// Whether `line`, without its newline, is MPI's. It is kept.
  bool take(const std::string& line);

  /// All that was kept, with newlines.
  const std::string& text() const { return text_; }

 private:
  std::string text_;
  bool in_block_ = false;  ///< between two rules of hyphens
};

}  // namespace dotresize
