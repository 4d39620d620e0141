#pragma once

#include <filesystem>
#include <set>
#include <thread>

#include "base/process/mutex.h"

namespace dotresize {

class Trash;

/// Directory that was moved away to be removed. Its destructor moves it back unless remove() was
/// called, so that a directory is only lost if the transaction that deletes it is committed.
class TrashedDirectory {
 public:
  TrashedDirectory() = default;
  TrashedDirectory(TrashedDirectory&& other) noexcept { *this = std::move(other); }
  TrashedDirectory& operator=(TrashedDirectory&& other) noexcept;
  ~TrashedDirectory();

  /// Lets the trash's thread remove the directory.
  void remove();

 private:
  friend class Trash;

  Trash* trash_ = nullptr;  ///< null: nothing was moved, or remove() was called
  std::filesystem::path from_;
  std::filesystem::path to_;
  std::filesystem::path note_;  ///< empty: `to_` lies in the trash folder
};

/// Moves directories, which may hold many files, away in one step, and removes them on a thread of
/// its own. The next server removes what a killed one has left in the folder.
class Trash {
 public:
  /// Creates `folder` if it is missing. Throws std::system_error.
  explicit Trash(std::filesystem::path folder);

  /// Moves a directory on the folder's own file system. Returns an empty object if it does not
  /// exist. Throws std::system_error.
  TrashedDirectory take(const std::filesystem::path& dir);
  /// Moves a directory on any file system to a hidden name beside it; a note in the folder records
  /// the name. `dir` is the path to move it by, `canonical` the same path without symbolic links.
  TrashedDirectory take_beside(const std::filesystem::path& dir,
                               const std::filesystem::path& canonical);

 private:
  friend class TrashedDirectory;

  /// Returns a new random name in the folder, which is not removed while it is held.
  std::filesystem::path hold_new_entry();
  /// Removes the entries that nobody holds.
  void sweep(const std::stop_token& stop);

  const std::filesystem::path folder_;
  Mutex mutex_;
  Condition changed_;
  bool filled_ DOTRESIZE_GUARDED_BY(mutex_) = true;  ///< there may be entries to remove
  std::set<std::filesystem::path> held_
      DOTRESIZE_GUARDED_BY(mutex_);  ///< entries that may be moved back
  std::jthread thread_;              ///< last member: it uses all the others
};

}  // namespace dotresize
