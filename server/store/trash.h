#pragma once

#include <condition_variable>
#include <filesystem>
#include <mutex>
#include <set>
#include <thread>

namespace dotresize {

class Trash;

/// A directory that has been moved to be removed. It gets its old name back unless remove() is
/// called: what a transaction forgets goes only if the transaction is committed.
class TrashedDirectory {
 public:
  TrashedDirectory() = default;
  TrashedDirectory(TrashedDirectory&& other) noexcept { *this = std::move(other); }
  TrashedDirectory& operator=(TrashedDirectory&& other) noexcept;
  ~TrashedDirectory();

  /// Has it removed, by a thread of the trash.
  void remove();

 private:
  friend class Trash;

  Trash* trash_ = nullptr;  ///< null: nothing was moved, or it is settled
  std::filesystem::path from_;
  std::filesystem::path to_;
  std::filesystem::path note_;  ///< empty: `to_` itself lies in the trash folder
};

/// Directories that may hold many files are moved away in one step, and removed by a thread of its
/// own. What a killed server has left in the folder is removed by the next one.
class Trash {
 public:
  /// `folder` is made if it is missing. Throws std::system_error.
  explicit Trash(std::filesystem::path folder);
  ~Trash();

  /// Moves a directory of the folder's own file system. Nothing if there is none of this name.
  /// Throws std::system_error.
  TrashedDirectory take(const std::filesystem::path& dir);
  /// Moves a directory of any file system to a hidden name beside it; a note in the folder says
  /// where. `dir` is the name to move it by, `canonical` the same without symbolic links.
  TrashedDirectory take_beside(const std::filesystem::path& dir,
                               const std::filesystem::path& canonical);

 private:
  friend class TrashedDirectory;

  void wake();
  void loop();
  void sweep();
  void remove_entry(const std::filesystem::path& entry) const;
  std::filesystem::path fresh_name() const;

  std::filesystem::path folder_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool filled_ = true;  ///< there may be something to remove
  bool stopping_ = false;
  std::set<std::filesystem::path> held_;  ///< entries that may go back
  std::thread thread_;                    ///< last: it uses all the others
};

}  // namespace dotresize
