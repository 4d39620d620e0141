#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "base/process/environment.h"
#include "base/process/rank_start.h"
#include "base/text/human_text.h"
#include "client/doctor/checks.h"

namespace dotresize {
namespace fs = std::filesystem;
namespace {

constexpr int64_t kMiB = int64_t{1} << 20;
/// Enough for eight ranks and the buffers of NCCL between GPUs without a direct link.
constexpr int64_t kAmpleSharedMemory = 256 * kMiB;
constexpr int64_t kLeastSpace = 64 * kMiB;
constexpr int64_t kAmpleSpace = 1024 * kMiB;

struct Space {
  int64_t least;  ///< less is a fault
  int64_t ample;  ///< less is a note
};

/// Checks the free bytes of the directory's file system. Check::part is not set.
Check space_check(const fs::path& directory, const Space& limits) {
  Check check;
  check.text = space_fault(directory, limits.least);
  if (!check.text.empty()) {
    check.state = Check::kFault;
    check.text = directory.string() + ": " + check.text;
    return check;
  }
  const auto free = static_cast<int64_t>(fs::space(directory).available);
  check.state = free < limits.ample ? Check::kNote : Check::kOk;
  check.text = fmt::format("{}: {} free", directory.string(), human_bytes(free));
  return check;
}

}  // namespace

Check cores_check() {
  const int visible = visible_cores();
  const double usable = usable_cores();
  if (usable >= visible) return {"cores", Check::kOk, counted(visible, "core"), ""};
  return {"cores", Check::kNote,
          fmt::format("{}, of which a control group allows {:.1f} to be busy",
                      counted(visible, "core"), usable),
          fmt::format("set OMP_NUM_THREADS so that all ranks together have {} threads",
                      std::max(1, static_cast<int>(usable)))};
}

Check memory_check() {
  const int64_t machine = machine_memory_bytes();
  const int64_t usable = usable_memory_bytes();
  if (usable >= machine) return {"memory", Check::kOk, human_bytes(machine), ""};
  return {"memory", Check::kOk,
          fmt::format("{} by the limit of a control group, {} in the machine; plans use the limit",
                      human_bytes(usable), human_bytes(machine)),
          ""};
}

Check shared_memory_check(const fs::path& directory) {
  Check check = space_check(directory, {kLeastSharedMemory, kAmpleSharedMemory});
  check.part = "shared memory";
  if (check.state == Check::kFault) {
    check.advice = kSharedMemoryAdvice;
  } else if (check.state == Check::kNote) {
    check.advice = "many ranks, and NCCL between GPUs, may need 1 GiB (docker run --shm-size=1g)";
  }
  return check;
}

Check directory_check(const std::string& what, const fs::path& directory) {
  Check check = space_check(directory, {kLeastSpace, kAmpleSpace});
  check.part = what;
  if (check.state != Check::kOk) {
    check.advice =
        "free some space: a job needs it for its journal and its output (see dotresize plan)";
  }
  if (::access(directory.c_str(), W_OK) == 0) return check;
  check.state = Check::kFault;
  check.text = directory.string() + ": " + std::generic_category().message(errno);
  check.advice = "give this user a directory that it may write to";
  return check;
}

}  // namespace dotresize
