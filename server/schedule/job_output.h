#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "base/files/pinned_directory.h"
#include "dotresize/v1/jobs.pb.h"
#include "server/store/trash.h"

namespace dotresize {

/// The regular file that a canonical absolute path names, found without following a link; nothing
/// if there is none, or a link is on the way. Throws InputError for a file of more than
/// `max_bytes`.
std::optional<std::string> read_pinned_file(const std::filesystem::path& path, size_t max_bytes);

/// What one job of this server has at its output path. `path` is the canonical one of its
/// admission; if a link is on the way now, or if somebody else's files are there, nothing is
/// touched.
class JobOutput {
 public:
  JobOutput(std::filesystem::path path, std::string job_id);

  /// Whether this attempt has completed the output.
  bool is_committed(int attempt) const;
  /// Whether any attempt has.
  bool is_committed() const;
  /// What the unfinished output takes; 0 if there is none.
  int64_t unfinished_bytes() const;
  /// Removes the unfinished output, all but a journal from which the job can go on. Not while
  /// another process holds its lock. Logs what it cannot remove.
  void trim() const;
  /// Moves the output away, to be removed later, if any attempt of this job has completed it.
  TrashedDirectory discard_committed(Trash& trash) const;
  /// Moves the unfinished output away, to be removed later. Nothing in the result if there is none
  /// of this job, or if another process holds its lock.
  TrashedDirectory discard(Trash& trash) const;

 private:
  /// Calls `body` with the directory above the unfinished output, its name there and itself, if it
  /// is this job's and nobody holds its lock.
  template <class Body>
  void with_partial(Body&& body) const;

  std::filesystem::path path_;
  std::string job_id_;
};

/// All that a job has left at the place of its output, moved away to be removed later: what is
/// unfinished, and an output that belongs elsewhere and waits to be pushed.
struct DiscardedOutput {
  TrashedDirectory unfinished;
  TrashedDirectory unpushed;

  void remove();
};

/// Nothing in the result of what another job has left there.
DiscardedOutput discard_output(const v1::Job& job, const std::filesystem::path& output,
                               Trash& trash);

}  // namespace dotresize
