#pragma once

#include <filesystem>
#include <mutex>

#include "base/errors.h"
#include "base/files/pinned_directory.h"
#include "base/output_owner.h"

namespace dotresize {

/// Another process writes the output.
class OutputBusy : public InputError {
 public:
  using InputError::InputError;
};

/// The output while it is being written: `<path>.partial`, locked against a second job, renamed to
/// `path` when it is whole. Rank 0 creates and commits it. The others write files into partial(),
/// and discard it if they end before leave(): they may be the last to run. What is left of a job
/// that ended before is its journal, if there is something in it: the next job goes on from there.
/// Both directories are open from the start, and everything is done through them: whoever may
/// rename what lies beside the output leads nothing elsewhere.
class OutputDirectory {
 public:
  /// Creates `<path>.partial`. Of an earlier job's nothing stays but its journal, and nothing at
  /// all if `fresh`. Throws InputError if `path` exists and `overwrite` is false or dotresize has
  /// not made it, if another job holds the lock, or if `<path>.partial` is not one of dotresize, or
  /// another user's.
  OutputDirectory(const std::filesystem::path& path, bool overwrite, bool fresh = false,
                  OutputOwner owner = {});
  /// Another rank's, once rank 0 has created it. Throws InputError if it cannot be opened, or is
  /// another user's.
  explicit OutputDirectory(const std::filesystem::path& path);
  /// discard()s.
  ~OutputDirectory();
  OutputDirectory(const OutputDirectory&) = delete;
  OutputDirectory& operator=(const OutputDirectory&) = delete;

  /// By its descriptor (base/files/confinement.h).
  const std::filesystem::path& partial() const { return partial_; }
  /// A directory in it (worker/calibration/journal.h).
  std::filesystem::path journal() const;
  /// Removes the unfinished output, all but a journal with entries, from any thread, whatever is
  /// still being written into it; does nothing after commit() or leave().
  void discard();
  /// discard()s, and lets other ranks, whose files may vanish by that, know why.
  void stop();
  /// Whether a rank has called stop() since rank 0 opened the directory.
  bool stopped() const;
  /// Leaves the output to rank 0, which may commit it as soon as it has this rank's next message.
  void leave();
  /// Once the output is whole: nobody goes on from its journal. If a job of a server has made it,
  /// it says so from now on.
  void close_journal();
  /// Makes the content durable and renames it to `path`, replacing an existing
  /// directory if `overwrite` allows it and dotresize has made that one too, else InputError.
  /// Throws std::runtime_error if something else lies under the name of the unfinished output.
  void commit();

 private:
  /// Path of an entry beside the output.
  std::filesystem::path beside(const std::filesystem::path& name) const;
  void require_name(const std::filesystem::path& name) const;
  void replace();

  std::filesystem::path path_;
  std::filesystem::path name_;          ///< of the output in parent_
  std::filesystem::path partial_name_;  ///< of the unfinished one
  bool overwrite_ = false;
  OutputOwner owner_;
  std::mutex mutex_;
  bool settled_ = false;  ///< committed or left
  PinnedDirectory parent_;
  PinnedDirectory directory_;  ///< the unfinished output; rank 0 holds the lock on it
  std::filesystem::path partial_;
};

}  // namespace dotresize
