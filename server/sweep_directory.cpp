#include "server/sweep_directory.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <string>

#include "base/unique_fd.h"
#include "job/page/sweep_page.h"
#include "job/sweep/results_message.h"
#include "job/sweep/sweep_run.h"
#include "server/api_error.h"
#include "server/files.h"
#include "server/job_output.h"

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
  const PinnedDirectory directory(output);
  if (!directory) return std::nullopt;
  const fs::path name = directory.path() / kSweepResults;
  const UniqueFd file(::open(name.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
  struct stat status = {};
  if (!file || ::fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode)) return std::nullopt;
  const auto text = read_file_start("/proc/self/fd/" + std::to_string(file.get()), kMaxSweepBytes);
  if (!text) return std::nullopt;
  return results_message(*text);
}

}  // namespace dotresize
