#include "client/display/worker_view.h"

#include <google/protobuf/util/json_util.h>

#include <algorithm>
#include <cstring>
#include <iostream>
#include <optional>

#include "base/failure.h"
#include "base/process/program.h"
#include "base/text/printable.h"

namespace dotresize {
namespace {

/// Parses a record of `--progress json`; nullopt for any other line.
std::optional<v1::Progress> parse_record(const std::string& line) {
  if (!line.starts_with('\x1e')) return std::nullopt;
  google::protobuf::util::JsonParseOptions options;
  options.ignore_unknown_fields = true;
  v1::Progress progress;
  const auto status =
      google::protobuf::util::JsonStringToMessage(line.substr(1), &progress, options);
  if (!status.ok()) return std::nullopt;
  return progress;
}

/// True for a line "[host:12345] ...", the form of opal_output.
bool has_process_prefix(const std::string& line) {
  const size_t colon = line.find(':');
  const size_t end = line.find(']');
  if (!line.starts_with('[') || colon == std::string::npos || end == std::string::npos)
    return false;
  return colon + 1 < end && line.find(' ') > end &&
         std::all_of(line.begin() + static_cast<std::ptrdiff_t>(colon) + 1,
                     line.begin() + static_cast<std::ptrdiff_t>(end),
                     [](char c) { return c >= '0' && c <= '9'; });
}

}  // namespace

void WorkerView::standard_output(std::string_view bytes) {
  display_.clear();
  (options_.output_to_stderr ? std::cerr : std::cout) << bytes << std::flush;
}

void WorkerView::standard_error(std::string_view bytes) {
  unfinished_ += bytes;
  size_t begin = 0;
  for (size_t end = 0; (end = unfinished_.find('\n', begin)) != std::string::npos;
       begin = end + 1) {
    take(unfinished_.substr(begin, end - begin));
  }
  unfinished_.erase(0, begin);
}

void WorkerView::take(const std::string& line) {
  if (const auto progress = parse_record(line)) return display_.show(*progress);
  if (is_of_mpi(line)) {
    mpi_text_ += line + "\n";
    if (!options_.verbose) return;
  }
  const auto failure = parse_failure_line(line);
  constexpr std::string_view kMark = "error: ";
  const size_t mark = line.find(kMark);
  if (reason_.empty() && mark != std::string::npos) {
    reason_ = failure ? failure->message : printable(line.substr(mark + kMark.size()));
  }
  if (failure && !failures_.insert(failure->message).second) return;  // repeated by another rank
  display_.print(printable_lines(line));
}

void WorkerView::finish(int exit_code) {
  if (!unfinished_.empty()) take(std::exchange(unfinished_, ""));
  display_.clear();
  const bool explained = exit_code == kExitOk || exit_code == kExitCancelled || !failures_.empty();
  if (!explained && !options_.verbose) std::cerr << mpi_text_ << std::flush;
  if (explained || !reason_.empty() || !mpi_text_.empty()) return;
  const char* signal = exit_code > 128 ? ::sigdescr_np(exit_code - 128) : nullptr;
  std::cerr << "dotresize: error: "
            << (signal == nullptr ? "the ranks ended with exit code " + std::to_string(exit_code)
                                  : "the ranks were killed by signal " +
                                        std::to_string(exit_code - 128) + " (" + signal + ")")
            << " and gave no reason: `dotresize doctor` tries to start ranks here, and dmesg tells "
               "whether the kernel has killed them for lack of memory\n";
}

bool WorkerView::is_of_mpi(const std::string& line) {
  // Ranks write at the same time as mpirun.
  if (line.starts_with("dotresize") || line.starts_with('\x1e')) return false;
  // OpenMPI puts help texts between two rules of hyphens (opal/util/show_help.c).
  constexpr size_t kShortestRule = 70;
  const bool rule =
      line.size() >= kShortestRule && line.find_first_not_of('-') == std::string::npos;
  const bool in_block = rule || in_block_of_mpi_;
  if (rule) in_block_of_mpi_ = !in_block_of_mpi_;
  return in_block || has_process_prefix(line);
}

}  // namespace dotresize
