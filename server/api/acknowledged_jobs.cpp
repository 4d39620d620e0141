#include "server/api/acknowledged_jobs.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "base/text/parse_number.h"
#include "server/store/files.h"

namespace dotresize {
namespace {

constexpr size_t kDigits = 19;

}  // namespace

AcknowledgedJobs::AcknowledgedJobs(std::filesystem::path file)
    : path_(std::move(file)),
      file_(::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600)) {
  if (!file_) throw_errno("cannot open " + path_.string());
  newest_ = parse_number<int64_t>(read_file_start(path_, kDigits).value_or("")).value_or(0);
}

void AcknowledgedJobs::require_at_most(int64_t last) {
  if (newest_ <= last) return;
  throw std::runtime_error(fmt::format(
      "the job table has lost jobs: job number {} was acknowledged, and its newest one is number "
      "{}. Restore a backup (docs/operations.md), or remove {} to go on without them",
      newest_, last, path_.string()));
}

void AcknowledgedJobs::put(int64_t number) {
  const std::lock_guard lock(mutex_);
  newest_ = std::max(newest_, number);
  // A fixed length overwrites the file in place, which works on a full disk.
  const std::string text = fmt::format("{:0{}}", newest_, kDigits);
  if (::pwrite(file_.get(), text.data(), text.size(), 0) != std::ssize(text)) {
    spdlog::error("cannot write {}", path_.string());
  }
}

}  // namespace dotresize
