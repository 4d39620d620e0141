#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "base/files/confinement.h"
#include "base/files/unique_fd.h"

namespace dotresize {

/// Stamp of a file. Another file of the same name has another one, and so has the file after a
/// change.
struct FileStamp {
  uint64_t inode = 0;
  uint64_t bytes = 0;
  int64_t modified_ns = 0;  ///< since 1970
  int64_t changed_ns = 0;   ///< since 1970; of content, owner, mode or names; cannot be set

  bool operator==(const FileStamp&) const = default;
};

/// Returns the stamp of a file without opening it; follows symbolic links, whatever the
/// confinement. Nothing if there is no such file.
std::optional<FileStamp> stamp_of_file(const std::filesystem::path& path);

/// A regular file, open for reading.
class InputFile {
 public:
  /// Opens the file; follows symbolic links as far as the confinement allows. Throws InputError if
  /// it is missing, not readable, not allowed, or not a regular file.
  explicit InputFile(const std::string& path,
                     const Confinement& confinement = Confinement::of_process());

  const std::string& path() const { return path_; }
  int descriptor() const { return fd_.get(); }
  uint64_t size() const { return size_; }
  /// Returns the file's current stamp.
  FileStamp stamp() const;
  /// Reads exactly `count` bytes at `offset`. Throws InputError if the file ends before.
  void read(char* to, uint64_t count, uint64_t offset) const;

 private:
  std::string path_;
  UniqueFd fd_;
  uint64_t size_ = 0;
};

/// The bytes of a regular file. Throws InputError, naming the file, if it is missing, is not a
/// regular file, cannot be read, or is larger than `max_bytes` (checked before it is read).
std::string read_whole_file(const std::filesystem::path& path, uint64_t max_bytes,
                            const Confinement& confinement = Confinement::of_process());

}  // namespace dotresize
