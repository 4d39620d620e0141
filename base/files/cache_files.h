#pragma once

#include <cstdint>
#include <filesystem>

#include "base/files/confinement.h"
#include "base/files/unique_fd.h"

/// Files that can be made again. A file of a cache is believed only with its seal, FILE.sha256: the
/// hash of its content.
namespace dotresize {

/// Name of the directory with tokenised texts, beside a job file or in a working directory.
inline constexpr char kTokenCacheName[] = ".dotresize-cache";

/// Writes the seal of a complete file. Throws as write_file_atomically().
void seal_file(const std::filesystem::path& file,
               const Confinement& confinement = Confinement::of_process());

/// True if the file matches its seal, and both are regular files of this user that not everybody
/// can write.
bool is_sealed(const std::filesystem::path& file,
               const Confinement& confinement = Confinement::of_process());

/// Keeps the files of a cache from trim_cache() while it lives. Other processes may use them too.
class CacheUse {
 public:
  CacheUse() = default;
  /// Throws std::system_error if the directory cannot be opened.
  explicit CacheUse(std::filesystem::path directory);
  /// Trims the cache to its limit.
  ~CacheUse();
  CacheUse(CacheUse&& other) noexcept = default;
  CacheUse& operator=(CacheUse&&) = delete;

  /// Path of the directory for a child that writes into it: it stays the one in use, whatever has
  /// its name now.
  std::filesystem::path for_others() const;

 private:
  std::filesystem::path directory_;
  UniqueFd lock_;
};

/// Removes the files that were used longest ago, with their seals, until the rest is within the
/// limit in bytes: by default 4 GiB, or an eighth of the file system if that is less. Does nothing
/// while a process uses the cache, or if there is none.
void trim_cache(const std::filesystem::path& directory);
void trim_cache(const std::filesystem::path& directory, int64_t limit);

}  // namespace dotresize
