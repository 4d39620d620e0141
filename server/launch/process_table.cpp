#include "server/launch/process_table.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <sstream>

#include "base/files/unique_fd.h"
#include "base/text/encodings.h"

extern "C" {  // missing in glibc 2.36's header
#include <sys/pidfd.h>
}

namespace dotresize {
namespace {

struct ProcessStat {
  char state = '?';
  pid_t parent = 0;
  uint64_t start_time = 0;
};

/// Reads /proc/PID/FILE; empty if the process is gone or belongs to another user.
std::string read_proc(pid_t pid, const char* file) {
  std::ifstream stream("/proc/" + std::to_string(pid) + "/" + file, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(stream), {});
}

std::optional<ProcessStat> read_stat(pid_t pid) {
  const std::string line = read_proc(pid, "stat");
  // The second field, the name in brackets, may itself hold brackets and blanks.
  const size_t name_end = line.rfind(')');
  if (name_end == std::string::npos) return std::nullopt;
  std::istringstream fields(line.substr(name_end + 1));
  ProcessStat stat;
  fields >> stat.state >> stat.parent;
  std::string skipped;
  for (int field = 5; field < 22; ++field) fields >> skipped;
  fields >> stat.start_time;
  if (!fields) return std::nullopt;
  return stat;
}

std::vector<pid_t> all_processes() {
  std::vector<pid_t> pids;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const auto pid = parse_number<pid_t>(entry.path().filename().string());
    if (pid) pids.push_back(*pid);
  }
  return pids;
}

}  // namespace

std::optional<uint64_t> process_start_time(pid_t pid) {
  const std::optional<ProcessStat> stat = read_stat(pid);
  if (!stat) return std::nullopt;
  return stat->start_time;
}

std::vector<pid_t> descendants_of(pid_t pid) {
  std::multimap<pid_t, pid_t> children;
  for (const pid_t candidate : all_processes()) {
    if (const auto stat = read_stat(candidate)) children.emplace(stat->parent, candidate);
  }
  std::vector<pid_t> found{pid};
  for (size_t i = 0; i < found.size(); ++i) {
    const auto [begin, end] = children.equal_range(found[i]);
    std::transform(begin, end, std::back_inserter(found),
                   [](const auto& entry) { return entry.second; });
  }
  found.erase(found.begin());
  return found;
}

std::vector<pid_t> processes_with_environment(const std::vector<std::string>& variables) {
  std::vector<pid_t> found;
  for (const pid_t pid : all_processes()) {
    const std::string environment = '\0' + read_proc(pid, "environ");
    const bool has_all = std::ranges::all_of(variables, [&](const std::string& variable) {
      return environment.find('\0' + variable + '\0') != std::string::npos;
    });
    if (pid == ::getpid() || !has_all) continue;
    const std::optional<ProcessStat> stat = read_stat(pid);
    if (stat && stat->state != 'Z' && stat->state != 'X') found.push_back(pid);
  }
  return found;
}

bool signal_process(pid_t pid, uint64_t start_time, int signal) {
  const UniqueFd process(::pidfd_open(pid, 0));
  if (!process || process_start_time(pid) != start_time) return false;
  return ::pidfd_send_signal(process.get(), signal, nullptr, 0) == 0;
}

}  // namespace dotresize
