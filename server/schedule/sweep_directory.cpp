#include "server/schedule/sweep_directory.h"

#include <string>

#include "job/sweep/results_message.h"
#include "job/sweep/sweep_run.h"
#include "server/api_error.h"
#include "server/schedule/job_output.h"

namespace dotresize {
namespace fs = std::filesystem;
namespace {

bool is_link(const fs::path& path) {
  std::error_code error;
  return fs::is_symlink(fs::symlink_status(path, error));
}

}  // namespace

void check_sweep_directory(const fs::path& output) {
  const auto refuse = [&](const std::string& what) {
    throw ApiError(grpc::StatusCode::FAILED_PRECONDITION, "OUTPUT_FOREIGN",
                   "output.path: " + output.string() + " " + what, {{"field", "output.path"}});
  };
  std::error_code error;
  const fs::file_status status = fs::symlink_status(output, error);
  if (status.type() == fs::file_type::not_found) return;
  if (status.type() != fs::file_type::directory) {
    refuse("is no directory of its own, which a sweep has");
  }
  for (const char* folder : {kSweepVariants, kSweepStatistics}) {
    if (is_link(output / folder))
      refuse("has a link in place of its folder " + std::string(folder));
  }
  const std::string fault = sweep_directory_fault(output);
  if (!fault.empty()) refuse(fault);
}

std::optional<v1::SweepResults> read_sweep_results(const fs::path& output) {
  const auto text = read_pinned_file(output / kSweepResults, kMaxSweepBytes);
  if (!text) return std::nullopt;
  return results_message(*text);
}

}  // namespace dotresize
