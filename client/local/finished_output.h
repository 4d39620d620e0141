#pragma once

#include <sys/types.h>

#include <filesystem>
#include <optional>
#include <string>

#include "client/local/planned_job.h"

namespace dotresize {

/// State of a job's output on this machine, by the files on disk: complete or not.
class FinishedOutput {
 public:
  /// Remembers what is at the output's path now.
  explicit FinishedOutput(const PlannedJob& planned);

  /// True if an earlier run of this very job has made the output, and it is not to be replaced.
  bool is_there() const;
  /// True if this job's output has come there since this object was made.
  bool came_since() const;

 private:
  std::filesystem::path path_;
  bool overwrite_;
  std::string identity_;
  std::optional<ino_t> before_;  ///< what was at the path
};

}  // namespace dotresize
