#include "worker/commands/token_cache.h"

#include <unistd.h>

#include <system_error>
#include <utility>

#include "base/process/environment.h"

namespace dotresize {
namespace fs = std::filesystem;
namespace {

bool is_writable(const fs::path& path) { return ::access(path.c_str(), W_OK | X_OK) == 0; }

}  // namespace

TokenCache TokenCache::beside(const fs::path& job_file) {
  // It is made only for a job with text.
  fs::path path = job_file.parent_path() / kTokenCacheName;
  std::error_code error;
  const bool usable = is_writable(fs::exists(path, error) ? path : path.parent_path());
  return usable ? TokenCache(std::move(path)) : of_user();
}

TokenCache TokenCache::of_user() {
  fs::path path = user_cache_dir();
  std::error_code error;
  if (!path.empty()) fs::create_directories(path, error);
  if (!path.empty() && !error && is_writable(path)) return TokenCache(std::move(path));
  auto scratch = std::make_unique<ScratchDirectory>();
  TokenCache cache(scratch->path());
  cache.scratch_ = std::move(scratch);
  return cache;
}

}  // namespace dotresize
