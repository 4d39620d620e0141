#include "base/environment.h"

#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <system_error>
#include <vector>

#include "base/errors.h"

namespace dotresize {
namespace fs = std::filesystem;
namespace {

/// The files with the memory limits of this process's control group and of those above it: cgroup
/// v2, or the memory controller of v1.
std::vector<fs::path> control_group_limits() {
  std::vector<fs::path> limits;
  std::ifstream groups("/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {  // 0::/a/b, or 7:memory:/a/b
    const std::size_t name = line.find(':') + 1;
    const std::size_t path = line.find(':', name) + 1;
    if (name == 0 || path == 0) continue;
    const std::string controllers = line.substr(name, path - name - 1);
    const bool version_2 = controllers.empty();
    if (!version_2 && controllers != "memory") continue;
    const fs::path root = version_2 ? "/sys/fs/cgroup" : "/sys/fs/cgroup/memory";
    for (fs::path group = line.substr(path);; group = group.parent_path()) {
      limits.push_back(root / group.relative_path() /
                       (version_2 ? "memory.max" : "memory.limit_in_bytes"));
      if (group == group.parent_path()) break;
    }
  }
  return limits;
}

bool is_executable(const fs::path& program) {
  struct stat status {};
  if (::access(program.c_str(), X_OK) != 0 || ::stat(program.c_str(), &status) != 0) return false;
  errno = EACCES;
  return S_ISREG(status.st_mode);
}

}  // namespace

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

int64_t usable_memory_bytes() {
  int64_t bytes = int64_t{::sysconf(_SC_PHYS_PAGES)} * ::sysconf(_SC_PAGESIZE);
  for (const fs::path& limit : control_group_limits()) {
    std::ifstream file(limit);
    int64_t most = 0;
    if (file >> most && most > 0) bytes = std::min(bytes, most);  // "max" is no number
  }
  return bytes;
}

fs::path user_cache_dir() {
  const fs::path cache = environment_variable("XDG_CACHE_HOME");
  if (!cache.empty()) return cache / "dotresize";
  const fs::path home = environment_variable("HOME");
  return home.empty() ? fs::path() : home / ".cache" / "dotresize";
}

bool sees_gpus(const fs::path& driver) {
  const char* visible = std::getenv("CUDA_VISIBLE_DEVICES");
  const bool hidden = visible != nullptr && *visible == '\0';
  return !hidden && fs::exists(driver);
}

fs::path worker_program() {
  const fs::path named = environment_variable("DOTRESIZE_WORKER");
  fs::path worker = named.empty()
                        ? fs::read_symlink("/proc/self/exe").parent_path() / "dotresize-worker"
                        : fs::absolute(named);
  if (!is_executable(worker)) {
    throw ProgramMissing(worker.string() + ": " + std::generic_category().message(errno) +
                         "; DOTRESIZE_WORKER can name the dotresize-worker to use");
  }
  return worker;
}

void require_program(const std::string& name) {
  std::istringstream path(environment_variable("PATH"));
  for (std::string dir; std::getline(path, dir, ':');) {
    if (is_executable(fs::path(dir) / name)) return;
  }
  throw ProgramMissing("there is no " + name + " in PATH");
}

}  // namespace dotresize
