#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "base/files/directory.h"
#include "dotresize/v1/jobs.pb.h"
#include "server/store/trash.h"

namespace dotresize {

/// Reads the regular file at a canonical absolute path without following links. Returns nullopt if
/// there is no such file or a link is on the way. Throws InputError if the file is larger than
/// `max_bytes`.
std::optional<std::string> read_pinned_file(const std::filesystem::path& path, size_t max_bytes);

/// The files that one job of this server has at its output path. `path` is the canonical path from
/// admission. If a link is now on the way, or the files belong to another job, nothing is touched.
class JobOutput {
 public:
  JobOutput(std::filesystem::path path, std::string job_id);

  /// True if this attempt has completed the output.
  bool is_committed(int attempt) const;
  /// True if any attempt of the job has completed the output.
  bool is_committed() const;
  /// Size of the unfinished output; 0 if there is none.
  int64_t unfinished_bytes() const;
  /// Removes the unfinished output except a journal from which the job can resume. Does nothing
  /// while another process holds the output's lock. Errors are logged.
  void trim() const;
  /// Moves the output to `trash` if any attempt of this job has completed it; otherwise the result
  /// is empty. Errors are logged.
  TrashedDirectory discard_committed(Trash& trash) const;
  /// Moves the unfinished output to `trash`. The result is empty if this job has none there, or if
  /// another process holds its lock. Errors are logged.
  TrashedDirectory discard(Trash& trash) const;

 private:
  /// Calls `body(parent directory, name in it, partial directory)` if the unfinished output belongs
  /// to this job and nobody else holds its lock.
  template <class Body>
  void with_partial(Body&& body) const;

  std::filesystem::path path_;
  std::string job_id_;
};

/// Everything a job has left at its output path, moved to the trash: the unfinished output, and a
/// completed output that still waits to be pushed.
struct DiscardedOutput {
  TrashedDirectory unfinished;
  TrashedDirectory unpushed;

  void remove();
};

/// Moves what this job has left at `output` to `trash`; files of other jobs stay.
DiscardedOutput discard_output(const v1::Job& job, const std::filesystem::path& output,
                               Trash& trash);

}  // namespace dotresize
