#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/files/directory.h"
#include "base/files/input_file.h"
#include "dotresize/v1/jobs.pb.h"
#include "server/store/job_store.h"
#include "server/store/state_dir.h"

namespace dotresize {

/// Job file that is open for reading, or a text in place of one.
class ArtifactFile {
 public:
  explicit ArtifactFile(InputFile file) : file_(std::move(file)) {}
  explicit ArtifactFile(std::string text) : text_(std::move(text)) {}

  int64_t size() const;
  /// Reads at most `max_bytes` from `offset` on; empty at the end. Throws InputError if the file
  /// has become shorter.
  std::string read(int64_t offset, size_t max_bytes) const;
  /// Returns the hash in hexadecimal digits. Throws InputError.
  std::string sha256() const;

 private:
  std::optional<InputFile> file_;
  std::string text_;
};

/// Files that an ended job has left. A requested name is only looked up in entries(); it is never
/// used as a path itself. The output directory is opened once, and its files are opened beneath it
/// without following links.
class JobArtifacts {
 public:
  /// Throws FAILED_PRECONDITION unless the job has ended, NOT_FOUND.
  JobArtifacts(const v1::Job& job, JobStore& store, const StateDir& state);

  enum class Part {
    kJob,     ///< log, job file, plan
    kResult,  ///< report and model card, which are also part of the model
    kModel,
  };
  struct Entry {
    std::string name;
    Part part;
    std::string sha256;  ///< empty: unknown until the file is read
  };

  /// Returns true if every caller with the role read may fetch a file of this name.
  static bool is_for_readers(const std::string& name);

  /// Entries in the order job, result, model.
  const std::vector<Entry>& entries() const { return entries_; }
  /// Opens the entry's file. Throws InputError if it is missing, or is not a regular file at its
  /// place.
  ArtifactFile open_entry(const Entry& entry) const;
  /// Describes an entry; `file` is the result of open_entry(). If the hash is not known, computes
  /// it; leaves it empty for a file of more than 1 GiB.
  static v1::Artifact describe(const Entry& entry, const ArtifactFile& file);

 private:
  /// `whole`: also adds the files that belong to the model alone.
  void add_of_model(bool whole);

  std::filesystem::path folder_;  ///< job's folder in the state directory
  std::string plan_;              ///< readable plan; empty: none
  PinnedDirectory output_;        ///< output, or what is kept of one that was pushed; may be empty
  std::vector<Entry> entries_;
};

/// An entry and its file.
struct OpenArtifact {
  JobArtifacts::Entry entry;
  ArtifactFile file;
};

}  // namespace dotresize
