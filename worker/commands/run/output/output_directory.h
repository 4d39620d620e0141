#pragma once

#include <filesystem>
#include <mutex>
#include <string>

#include "base/files/output_owner.h"
#include "base/files/partial_path.h"
#include "worker/commands/run/output/unfinished_directory.h"

namespace dotresize {

/// An output that is being written: `<path>.partial`, locked against a second job, and renamed to
/// `path` when it is complete. Rank 0 creates and commits it. The other ranks write files into
/// partial(), and discard it if they end before leave(), since they may be the last to run. A job
/// that ended early leaves only its journal, if it has entries; the next job resumes from it.
class OutputDirectory {
 public:
  /// Creates `<path>.partial`. Keeps only the journal of an earlier job, or nothing if `fresh`. But
  /// if an earlier run of the job with this `identity` (job/report/job_identity.h) has failed in
  /// its last step, it keeps everything (is_complete()). Throws InputError if the output cannot be
  /// written at `path` (output_fault), if another job holds the lock, if `<path>.partial` is not
  /// dotresize's, belongs to another user, or has the complete output of another job, or if
  /// `rights` do not cover one of the two.
  OutputDirectory(const std::filesystem::path& path, bool overwrite, bool fresh = false,
                  OutputRights rights = {}, const std::string& identity = "");
  /// Opens the directory on another rank, once rank 0 has created it. Throws InputError if it
  /// cannot be opened or belongs to another user.
  explicit OutputDirectory(const std::filesystem::path& path);
  /// Calls discard().
  ~OutputDirectory();
  OutputDirectory(const OutputDirectory&) = delete;
  OutputDirectory& operator=(const OutputDirectory&) = delete;

  /// True if nothing is left to do but commit().
  bool is_complete() const { return complete_; }
  /// Path by descriptor (base/files/confinement.h).
  const std::filesystem::path& partial() const { return partial_; }
  /// Journal directory in partial() (worker/calibration/storage/journal.h).
  std::filesystem::path journal() const;
  /// Removes the unfinished output except a journal with entries. May be called from any thread
  /// while files are still being written. Does nothing after commit() or leave().
  void discard();
  /// Calls discard(), and tells the other ranks the reason, since their files may vanish.
  void stop();
  /// True if a rank has called stop() since rank 0 opened the directory.
  bool stopped() const;
  /// Leaves the output to rank 0, which may commit it once it has this rank's next message.
  void leave();
  /// Removes the journal of an output that lacks only its sums, so that no job resumes from it.
  /// Also records the owner in the output, if a server's job has made it.
  void close_journal();
  /// Makes the content durable and renames it to `path`. Replaces an existing directory if
  /// `overwrite` allows it and dotresize has made that one too. Nothing is removed before that.
  /// Throws InputError if it cannot be renamed: `<path>.partial` then stays complete, and the
  /// message says how to go on. Throws std::runtime_error if the unfinished output's name leads to
  /// something else.
  void commit();
  /// Rights of this job over what exists; on rank 0.
  const OutputRights& rights() const { return rights_; }

 private:
  /// Throws InputError if the job may not write its output at `path`, where the output's name leads
  /// to.
  void check_replaceable(const std::filesystem::path& path, bool overwrite) const;
  /// Throws InputError if the job's rights do not cover what exists at `path`.
  void require_covered(const std::filesystem::path& path) const;
  /// Readies `<path>.partial` for a new job, or finds it complete.
  void begin(bool fresh, const std::string& identity);
  /// Makes this attempt the owner of an output that an earlier one has completed.
  void take_over();
  void replace();

  std::filesystem::path path_;
  bool overwrite_ = false;
  OutputRights rights_;
  std::mutex mutex_;
  bool complete_ = false;
  bool settled_ = false;            ///< committed or left
  UnfinishedDirectory unfinished_;  ///< rank 0 holds its lock
  std::filesystem::path partial_;
};

}  // namespace dotresize
