#include "client/display/worker_view.h"

#include <google/protobuf/util/json_util.h>

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

}  // namespace

void WorkerView::standard_output(std::string_view bytes) {
  display_->clear();
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
  if (const auto progress = parse_record(line)) return display_->show(*progress);
  const bool mpi = mpi_.take(line);
  if (mpi && !options_.verbose) return;
  const auto failure = parse_failure_line(line);
  if (failure && !failures_.insert(failure->message).second) return;  // repeated by another rank
  display_->print(printable_lines(line));
}

void WorkerView::finish(int exit_code) {
  if (!unfinished_.empty()) take(std::exchange(unfinished_, ""));
  display_.reset();
  const bool explained = exit_code == kExitOk || exit_code == kExitCancelled || !failures_.empty();
  if (!explained && !options_.verbose) std::cerr << mpi_.text() << std::flush;
}

}  // namespace dotresize
