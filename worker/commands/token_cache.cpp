#include "worker/commands/token_cache.h"

#include <sys/stat.h>
#include <unistd.h>

#include <system_error>
#include <utility>

#include "base/files/file_changes.h"
#include "base/process/environment.h"

namespace dotresize {
namespace fs = std::filesystem;
namespace {

bool is_writable(const fs::path& path) { return ::access(path.c_str(), W_OK | X_OK) == 0; }

}  // namespace

TokenCache TokenCache::beside(const fs::path& job_file) {
  // It is made only for a job with text.
  fs::path path = job_file.parent_path() / kTokenCacheName;
  struct stat status {};
  const bool exists = ::lstat(path.c_str(), &status) == 0;
  const bool foreign = exists && (!S_ISDIR(status.st_mode) || status.st_uid != ::geteuid());
  const bool usable = !foreign && is_writable(exists ? path : path.parent_path());
  return usable ? TokenCache(std::move(path)) : of_user();
}

TokenCache TokenCache::of_user() {
  fs::path path = user_cache_dir();
  std::error_code error;
  if (!path.empty()) files::create_directories(path, error);
  if (!path.empty() && !error && is_writable(path)) return TokenCache(std::move(path));
  auto scratch = std::make_unique<ScratchDirectory>();
  TokenCache cache(scratch->path());
  cache.scratch_ = std::move(scratch);
  return cache;
}

}  // namespace dotresize
