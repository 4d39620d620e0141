#pragma once

#include <set>
#include <string>
#include <string_view>

#include "base/process/child_process.h"
#include "client/display/progress_display.h"

namespace dotresize {

/// Shows a worker's output to people: its progress (`--progress json`) on a ProgressDisplay, its
/// standard output unchanged, and each of its errors once. MPI's messages about a failure that the
/// worker has explained are left out.
class WorkerView final : public ProgramOutput {
 public:
  struct Options {
    bool output_to_stderr = false;  ///< stdout is reserved for a JSON document
    bool verbose = false;           ///< also shows MPI's messages
  };
  explicit WorkerView(const Options& options) : options_(options) {}

  void standard_output(std::string_view bytes) override;
  void standard_error(std::string_view bytes) override;
  void tick() override { display_.tick(); }
  /// Returns what the worker has said is wrong; empty if it has not.
  const std::string& reason() const { return reason_; }
  /// Shows the rest after the worker's end, and what to try if nothing explains it.
  void finish(int exit_code);

 private:
  void take(const std::string& line);
  /// True if `line` is MPI's, about the end of a run ("MPI_ABORT was invoked on rank 1 ...").
  bool is_of_mpi(const std::string& line);

  Options options_;
  ProgressDisplay display_;
  std::string unfinished_;  ///< the last, incomplete line
  std::set<std::string> failures_;
  std::string mpi_text_;          ///< MPI's lines
  bool in_block_of_mpi_ = false;  ///< between two rules of hyphens
  std::string reason_;            ///< first error of a program
};

}  // namespace dotresize
