#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "base/unique_fd.h"
#include "server/trash.h"

namespace dotresize {

/// The directory that a canonical absolute path names, opened without following a symbolic link
/// anywhere on the way: what somebody puts there later does not lead elsewhere.
class PinnedDirectory {
 public:
  /// None if there is no such directory, or a link is on the way.
  explicit PinnedDirectory(const std::filesystem::path& path);

  explicit operator bool() const { return static_cast<bool>(fd_); }
  /// For functions that take paths: always of the directory that was opened.
  std::filesystem::path path() const;

 private:
  UniqueFd fd_;
};

/// The regular file that such a path names, found likewise; nothing if there is none, or a link is
/// on the way. Throws InputError for a file of more than `max_bytes`.
std::optional<std::string> read_pinned_file(const std::filesystem::path& path, size_t max_bytes);

/// What one job of this server has at its output path. `path` is the canonical one of its
/// admission; if a link is on the way now, or if somebody else's files are there, nothing is
/// touched.
class JobOutput {
 public:
  JobOutput(std::filesystem::path path, std::string job_id);

  /// Whether this attempt has completed the output.
  bool is_committed(int attempt) const;
  /// What the unfinished output takes; 0 if there is none.
  int64_t unfinished_bytes() const;
  /// Removes the unfinished output, all but a journal from which the job can go on. Not while
  /// another process holds its lock. Logs what it cannot remove.
  void trim() const;
  /// Moves the unfinished output away, to be removed later. Nothing in the result if there is none
  /// of this job, or if another process holds its lock.
  TrashedDirectory discard(Trash& trash) const;

 private:
  /// Calls `body` with the unfinished output under its pinned directory, if it is this job's and
  /// nobody holds its lock.
  template <class Body>
  void with_partial(Body&& body) const;

  std::filesystem::path path_;
  std::string job_id_;
};

}  // namespace dotresize
