#pragma once

#include <memory>
#include <set>
#include <string>
#include <string_view>

#include "base/child_process.h"
#include "client/display/mpi_messages.h"
#include "client/display/progress_display.h"

namespace dotresize {

/// What a worker writes, for people: its progress (`--progress json`) as a ProgressDisplay, its
/// standard output as it is, and of its errors each one once. What MPI says about a failure that
/// the worker has explained is left out.
class WorkerView final : public ProgramOutput {
 public:
  struct Options {
    bool output_to_stderr = false;  ///< stdout has its one document already
    bool verbose = false;           ///< shows what MPI says as well
  };
  explicit WorkerView(const Options& options) : options_(options) {}

  void standard_output(std::string_view bytes) override;
  void standard_error(std::string_view bytes) override;
  void tick() override { display_->tick(); }
  /// After the end of the worker.
  void finish(int exit_code);

 private:
  void take(const std::string& line);

  Options options_;
  std::unique_ptr<ProgressDisplay> display_ = progress_display();
  std::string unfinished_;  ///< the last line, without its newline
  std::set<std::string> failures_;
  MpiMessages mpi_;
};

}  // namespace dotresize
