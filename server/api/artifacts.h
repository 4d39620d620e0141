#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/files/pinned_directory.h"
#include "base/input_file.h"
#include "dotresize/v1/jobs.pb.h"

namespace dotresize {

/// A file of a job, open for reading, or a text that stands for one.
class ArtifactFile {
 public:
  explicit ArtifactFile(InputFile file) : file_(std::move(file)) {}
  explicit ArtifactFile(std::string text) : text_(std::move(text)) {}

  int64_t size() const;
  /// At most `max_bytes` from `offset` on; empty at the end. Throws InputError if the file has
  /// become shorter.
  std::string read(int64_t offset, size_t max_bytes) const;
  /// In hexadecimal digits. Throws InputError.
  std::string sha256() const;

 private:
  std::optional<InputFile> file_;
  std::string text_;
};

/// Where a job's files are.
struct ArtifactSources {
  std::filesystem::path folder;  ///< of the job, in the state directory
  std::filesystem::path output;  ///< as of JobStore::output_of
  std::string plan;              ///< for people; empty: there is none
};

/// What an ended job has left. Names lead nowhere by themselves: each is looked up among those that
/// this class makes. The output is opened once; what is in it is opened beneath that directory,
/// without following a link.
class JobArtifacts {
 public:
  /// Throws ApiError, FAILED_PRECONDITION, unless the job has ended.
  JobArtifacts(const v1::Job& job, ArtifactSources sources);

  enum class Part {
    kJob,     ///< log, job file, plan
    kResult,  ///< report and model card, which are the model's too
    kModel,
  };
  struct Entry {
    std::string name;
    Part part;
    std::string sha256;  ///< empty: not known before it is read
  };

  /// Whether a file of this name would be no more than what all who see a job see of it.
  static bool is_for_readers(const std::string& name);

  /// By part, then by name.
  const std::vector<Entry>& entries() const { return entries_; }
  const Entry* find(const std::string& name) const;
  /// Throws InputError if it is gone, or is no regular file that lies where it should.
  ArtifactFile open_entry(const Entry& entry) const;
  /// Describes an entry, `file` being what open_entry() has given. Reads all of it if its hash is
  /// not known, unless it has more than 1 GiB: then the hash stays unknown.
  static v1::Artifact describe(const Entry& entry, const ArtifactFile& file);

 private:
  void add_of_job();
  void add_of_sweep();
  /// `whole`: also what is the model's alone.
  void add_of_model(bool whole);

  ArtifactSources sources_;
  PinnedDirectory output_;
  std::vector<Entry> entries_;
};

}  // namespace dotresize
