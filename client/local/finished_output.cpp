#include "client/local/finished_output.h"

#include <sys/stat.h>

#include "job/report/job_identity.h"

namespace dotresize {
namespace {

std::optional<ino_t> inode_of(const std::filesystem::path& path) {
  struct stat status {};
  if (::lstat(path.c_str(), &status) != 0) return std::nullopt;
  return status.st_ino;
}

}  // namespace

FinishedOutput::FinishedOutput(const PlannedJob& planned)
    : path_(planned.plan.job.output.path),
      overwrite_(planned.plan.job.output.overwrite),
      identity_(job_identity(planned.file.spec)),
      before_(inode_of(path_)) {}

bool FinishedOutput::is_there() const {
  return before_ && !overwrite_ && is_output_of(path_, identity_);
}

bool FinishedOutput::came_since() const {
  return inode_of(path_) != before_ && is_output_of(path_, identity_);
}

}  // namespace dotresize
