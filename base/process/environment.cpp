#include "base/process/environment.h"

#include <pwd.h>
#include <sched.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <initializer_list>
#include <string_view>
#include <system_error>
#include <vector>

#include "base/text/human_text.h"

namespace dotresize {
namespace fs = std::filesystem;
namespace {

/// Returns a controller's files in this process's control group and its ancestors: `version_2`, or
/// `version_1` where the controller belongs to cgroup v1.
std::vector<fs::path> control_group_files(const std::string& controller, const char* version_2,
                                          const char* version_1) {
  std::vector<fs::path> files;
  std::ifstream groups("/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {  // 0::/a/b, or 7:memory:/a/b
    const std::size_t name = line.find(':') + 1;
    const std::size_t path = line.find(':', name) + 1;
    if (name == 0 || path == 0) continue;
    const std::string controllers = line.substr(name, path - name - 1);  // "cpu,cpuacct"
    const bool is_version_2 = controllers.empty();
    const bool has_controller =
        ("," + controllers + ",").find("," + controller + ",") != std::string::npos;
    if (!is_version_2 && !has_controller) continue;
    const fs::path root =
        is_version_2 ? fs::path("/sys/fs/cgroup") : fs::path("/sys/fs/cgroup") / controller;
    for (fs::path group = line.substr(path);; group = group.parent_path()) {
      files.push_back(root / group.relative_path() / (is_version_2 ? version_2 : version_1));
      if (group == group.parent_path()) break;
    }
  }
  return files;
}

bool has_prefix(std::string_view text, std::initializer_list<std::string_view> prefixes) {
  return std::ranges::any_of(prefixes, [&](auto prefix) { return text.starts_with(prefix); });
}

/// True for a variable of an MPI or Slurm step. `in_mpi`: this process belongs to a step of MPI,
/// which passes its own state on as parameters too.
bool describes_step(std::string_view name, bool in_mpi) {
  if (has_prefix(name, {"OMPI_MCA_", "PRTE_MCA_"})) {
    const std::string_view parameter = name.substr(name.find("_MCA_") + 5);
    return in_mpi && (parameter == "ess" || parameter == "pmix" || parameter == "initial_wdir" ||
                      has_prefix(parameter, {"ess_base_", "orte_", "prte_", "shmem_RUNTIME_"}));
  }
  // The first two allow something to mpirun, the third one says where Slurm is.
  if (has_prefix(name, {"OMPI_ALLOW_RUN_AS_ROOT", "PMIX_MCA_", "SLURM_CONF"})) return false;
  // Slurm's variables make mpirun start its daemons with srun on all nodes of the allocation, and a
  // worker expect the other tasks of the step. Ranks that are started here stay here.
  return has_prefix(name, {"OMPI_", "PMIX_", "PMI_", "ORTE_", "PRTE_", "SLURM_"});
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

void leave_parent_step() {
  const bool in_mpi =
      std::getenv("PMIX_NAMESPACE") != nullptr || std::getenv("OMPI_COMM_WORLD_RANK") != nullptr;
  std::vector<std::string> dropped;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const std::string_view text = *variable;
    const std::string_view name = text.substr(0, text.find('='));
    if (describes_step(name, in_mpi)) dropped.emplace_back(name);
  }
  for (const std::string& name : dropped) ::unsetenv(name.c_str());
  const bool homeless = std::getenv("HOME") == nullptr && ::getpwuid(::geteuid()) == nullptr;
  if (homeless) ::setenv("HOME", "/", 0);
}

std::string random_bytes(size_t count) {
  std::string bytes(count, '\0');
  if (::getrandom(bytes.data(), count, 0) != std::ssize(bytes)) {
    throw std::system_error(errno, std::generic_category(), "getrandom");
  }
  return bytes;
}

int64_t machine_memory_bytes() {
  return int64_t{::sysconf(_SC_PHYS_PAGES)} * ::sysconf(_SC_PAGESIZE);
}

int64_t usable_memory_bytes() {
  int64_t bytes = machine_memory_bytes();
  for (const fs::path& limit :
       control_group_files("memory", "memory.max", "memory.limit_in_bytes")) {
    std::ifstream file(limit);
    int64_t most = 0;
    if (file >> most && most > 0) bytes = std::min(bytes, most);  // "max" does not parse
  }
  return bytes;
}

std::optional<int64_t> process_memory_limit() {
  std::optional<int64_t> least;
  for (const auto resource : {RLIMIT_AS, RLIMIT_DATA}) {
    rlimit limit = {};
    if (::getrlimit(resource, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) continue;
    least = std::min(least.value_or(INT64_MAX), static_cast<int64_t>(limit.rlim_cur));
  }
  return least;
}

int visible_cores() {
  cpu_set_t mine;
  CPU_ZERO(&mine);
  return ::sched_getaffinity(0, sizeof(mine), &mine) == 0 ? CPU_COUNT(&mine) : 1;
}

double usable_cores() {
  double cores = visible_cores();
  for (const fs::path& limit : control_group_files("cpu", "cpu.max", "cpu.cfs_quota_us")) {
    std::ifstream file(limit);  // microseconds: "200000 100000", or the period in its own file
    double quota = 0.0;
    double period = 0.0;
    if (!(file >> quota) || quota <= 0.0) continue;  // "max", or -1
    if (!(file >> period)) std::ifstream(limit.parent_path() / "cpu.cfs_period_us") >> period;
    if (period > 0.0) cores = std::min(cores, quota / period);
  }
  return cores;
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

bool ranks_share_gpus() { return !environment_variable("DOTRESIZE_SHARE_GPU").empty(); }

std::string space_fault(const fs::path& directory, int64_t least) {
  std::error_code error;
  const fs::space_info space = fs::space(directory, error);
  if (error) return error.message();
  if (space.available >= static_cast<uintmax_t>(least)) return "";
  return "less than " + human_bytes(least) + " are free";
}

}  // namespace dotresize
