#pragma once

#include <filesystem>
#include <mutex>

#include "base/unique_fd.h"

namespace dotresize {

/// Removes an unfinished output, whatever is still being written into it.
void remove_unfinished(const std::filesystem::path& partial);

/// The output while it is being written: `<path>.partial`, locked against a second job, renamed to
/// `path` when it is whole. Used by rank 0; other ranks write files into partial() after a barrier.
class OutputDirectory {
 public:
  /// Creates an empty `<path>.partial` (a leftover of an earlier job is removed first). Throws
  /// InputError if `path` exists and `overwrite` is false, or if another job holds the lock.
  OutputDirectory(const std::filesystem::path& path, bool overwrite);
  /// discard()s.
  ~OutputDirectory();
  OutputDirectory(const OutputDirectory&) = delete;
  OutputDirectory& operator=(const OutputDirectory&) = delete;

  const std::filesystem::path& partial() const { return partial_; }
  /// Removes the unfinished output, from any thread, whatever is still being written into it; does
  /// nothing after commit().
  void discard();
  /// Makes the content durable and renames it to `path`, replacing an existing directory if
  /// `overwrite` allows it.
  void commit();

 private:
  std::filesystem::path path_;
  std::filesystem::path partial_;
  bool overwrite_ = false;
  std::mutex mutex_;
  bool committed_ = false;
  UniqueFd lock_;
};

}  // namespace dotresize
