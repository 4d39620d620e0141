#include "base/environment.h"

#include <sys/random.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <system_error>

#include "base/errors.h"

namespace dotresize {
namespace fs = std::filesystem;

std::string environment_variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

std::string host_name() {
  std::array<char, 256> name{};
  ::gethostname(name.data(), name.size() - 1);
  return name.data();
}

void limit_spinning() {
  if (std::getenv("OMP_WAIT_POLICY") == nullptr) ::setenv("GOMP_SPINCOUNT", "1000", 0);
}

std::string random_bytes(size_t count) {
  std::string bytes(count, '\0');
  if (::getrandom(bytes.data(), count, 0) != std::ssize(bytes)) {
    throw std::system_error(errno, std::generic_category(), "getrandom");
  }
  return bytes;
}

fs::path user_cache_dir() {
  const fs::path cache = environment_variable("XDG_CACHE_HOME");
  if (!cache.empty()) return cache / "dotresize";
  const fs::path home = environment_variable("HOME");
  return home.empty() ? fs::path() : home / ".cache" / "dotresize";
}

fs::path worker_program() {
  const fs::path named = environment_variable("DOTRESIZE_WORKER");
  fs::path worker = named.empty()
                        ? fs::read_symlink("/proc/self/exe").parent_path() / "dotresize-worker"
                        : fs::absolute(named);
  if (::access(worker.c_str(), X_OK) != 0) {
    throw ProgramMissing(worker.string() + ": " + std::generic_category().message(errno) +
                         "; DOTRESIZE_WORKER can name the dotresize-worker to use");
  }
  return worker;
}

}  // namespace dotresize
