#include "base/process/machine_faults.h"

#include <chrono>
#include <vector>

#include "base/process/child_process.h"
#include "base/process/environment.h"
#include "base/process/program.h"
#include "base/text/human_text.h"
#include "base/text/printable.h"

namespace dotresize {
namespace fs = std::filesystem;

std::string worker_fault() {
  constexpr std::chrono::seconds kPatience{20};
  const std::vector<std::string> command = {worker_program().string(), "--version"};
  const CapturedChild probe = capture_child(command, kPatience);
  if (probe.exit_code == kExitOk) return "";
  return command[0] + " --version ends with exit code " + std::to_string(probe.exit_code) +
         (probe.last_line.empty() ? "" : ": " + printable(probe.last_line));
}

std::string space_fault(const fs::path& directory, int64_t least) {
  std::error_code error;
  const fs::space_info space = fs::space(directory, error);
  if (error) return error.message();
  if (space.available >= static_cast<uintmax_t>(least)) return "";
  return "less than " + human_bytes(least) + " are free";
}

}  // namespace dotresize
