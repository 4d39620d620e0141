#include "worker/user_cache.h"

#include <cstdlib>

#include "job/errors.h"

namespace dotresize {
namespace fs = std::filesystem;

fs::path user_cache_dir() {
  if (const char* cache = std::getenv("XDG_CACHE_HOME")) return fs::path(cache) / "dotresize";
  if (const char* home = std::getenv("HOME")) return fs::path(home) / ".cache" / "dotresize";
  throw InputError("neither XDG_CACHE_HOME nor HOME says where to keep tokenised text");
}

}  // namespace dotresize
