#include "base/user_cache.h"

#include <cstdlib>

namespace dotresize {
namespace fs = std::filesystem;
namespace {

fs::path named_by(const char* variable) {
  const char* value = std::getenv(variable);
  return value != nullptr ? fs::path(value) : fs::path();
}

}  // namespace

fs::path user_cache_dir() {
  if (const fs::path cache = named_by("XDG_CACHE_HOME"); !cache.empty()) return cache / "dotresize";
  if (const fs::path home = named_by("HOME"); !home.empty()) return home / ".cache" / "dotresize";
  return {};
}

}  // namespace dotresize
