#pragma once

#include <filesystem>
#include <memory>

#include "base/files/cache_files.h"
#include "base/files/directory.h"

namespace dotresize {

/// Directory in which tokenised texts are kept.
class TokenCache {
 public:
  explicit TokenCache(std::filesystem::path path) : path_(std::move(path)) {}
  /// The directory beside a job file, or of_user() if it is another user's or no files can be made
  /// there.
  static TokenCache beside(const std::filesystem::path& job_file);
  /// The user's cache, or a temporary directory that ends with this object if there is none, or no
  /// files can be made there.
  static TokenCache of_user();

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  std::unique_ptr<ScratchDirectory> scratch_;
};

}  // namespace dotresize
