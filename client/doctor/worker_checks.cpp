#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <sstream>
#include <stdexcept>
#include <system_error>

#include "base/errors.h"
#include "base/process/child_process.h"
#include "base/process/environment.h"
#include "base/process/program.h"
#include "base/process/rank_start.h"
#include "base/text/checked_json.h"
#include "base/text/human_text.h"
#include "base/text/printable.h"
#include "client/doctor/checks.h"

namespace dotresize {
namespace fs = std::filesystem;
namespace {

using Json = nlohmann::json;

/// CUDA's libraries are gigabytes, and the first read from disk may be slow.
constexpr std::chrono::seconds kPatienceForProbe{120};
/// Ranks give each other up after 30 s and report it.
constexpr std::chrono::seconds kPatienceForRanks{90};
constexpr size_t kMaxFault = 600;

/// Failure of a program; what() is its own message.
class Failed : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// The worker's error message, else the last line that the program wrote.
std::string reason_for(const CapturedChild& child, std::chrono::seconds limit) {
  constexpr std::string_view kError = "dotresize-worker: error: ";
  constexpr int kKilled = 128 + SIGKILL;
  std::istringstream lines(child.errors);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with(kError)) return printable(line.substr(kError.size()), kMaxFault);
  }
  if (child.exit_code == kKilled) {
    return fmt::format("was killed, or did not end within {} s", limit.count());
  }
  if (!child.last_line.empty()) return printable(child.last_line, kMaxFault);
  return fmt::format("ends with exit code {}", child.exit_code);
}

/// Runs a program and returns the JSON object that it prints. Throws Failed.
Json document_of(const std::vector<std::string>& command, std::chrono::seconds limit) {
  CapturedChild child;
  try {
    child = capture_child(command, limit);
  } catch (const std::system_error& error) {
    throw Failed(error.what());
  }
  if (child.exit_code != kExitOk) throw Failed(reason_for(child, limit));
  try {
    return parse_json_object(child.output, command.front());
  } catch (const InputError& error) {
    throw Failed(error.what());
  }
}

/// Runs the worker's self-test with `ranks` ranks.
Json self_test(int ranks, const char* device) {
  try {
    require_rank_start(ranks);
  } catch (const ProgramMissing& error) {
    throw Failed(error.what());
  }
  const SharedMemoryFolder shared_memory(ranks);
  return document_of(
      launch_command(ranks, shared_memory.path(),
                     {worker_program().string(), "self-test", "--device", device, "-o", "json"}),
      kPatienceForRanks);
}

/// Returns "; links: 1.2GB/s at least", or "" without links.
std::string links_text(const Json& result) {
  const auto speeds = result.at("link_bytes_per_s").get<std::vector<int64_t>>();
  if (speeds.empty()) return "";
  return fmt::format("; links: {}B/s at least",
                     format_rate(static_cast<double>(*std::ranges::min_element(speeds))));
}

std::string fault_in(const Json& part) { return part.at("fault").get<std::string>(); }

Check driver_check(const Json& probe) {
  const Json& driver = probe.at("driver");
  const std::string fault = fault_in(driver);
  Check check{"driver", Check::kOk, "", "", /*needed=*/false};
  if (fault.empty()) {
    const int version = driver.at("cuda_version");
    check.text =
        fmt::format("NVIDIA driver for CUDA up to {}.{}", version / 1000, version % 1000 / 10);
    return check;
  }
  check.text = fault + ": jobs run on the CPU";
  check.state = Check::kNote;
  if (!driver.at("found").get<bool>()) {
    check.advice = "if there is a GPU, install its driver; in a container start it with --gpus all";
  } else if (driver.at("cuda_version").get<int>() > 0) {
    check.advice = "if there is a GPU, check CUDA_VISIBLE_DEVICES and nvidia-smi";
  } else {
    check.state = Check::kFault;
    check.advice =
        "see nvidia-smi: the driver's library and its kernel module must have the same "
        "version";
  }
  return check;
}

Check gpu_check(size_t number, const Json& gpu) {
  const std::string fault = fault_in(gpu);
  Check check{fmt::format("GPU {}", number), Check::kOk,
              fmt::format("{} (sm_{}), {}", printable(gpu.at("name").get<std::string>()),
                          gpu.at("capability").get<int>(),
                          human_bytes(gpu.at("memory_bytes").get<int64_t>())),
              "", /*needed=*/false};
  if (fault.empty()) return check;
  check.state = Check::kFault;
  check.text += ": " + fault;
  check.advice = "docs/operations.md, section GPUs, lists which torch supports which GPU";
  return check;
}

Check module_check(const Json& probe) {
  const Json& module = probe.at("cuda_module");
  const std::string fault = fault_in(module);
  Check check{"CUDA module", Check::kOk, module.at("path"), "", /*needed=*/false};
  if (fault.empty()) return check;
  check.text = fault;
  const bool built = module.at("built");
  // The module is not needed without GPUs.
  check.state = built || !probe.at("gpus").empty() ? Check::kFault : Check::kNote;
  check.advice =
      built ? "it needs the libraries of torch's wheels: check LD_LIBRARY_PATH and LD_PRELOAD for "
              "other versions of them, and build again if torch has changed"
            : "for GPUs build with -DDOTRESIZE_WITH_CUDA=ON";
  return check;
}

/// Checks the NCCL that the CUDA module has loaded: LD_LIBRARY_PATH, e.g. set by a cluster's
/// environment modules, may replace torch's.
Check nccl_check(const Json& probe) {
  const fs::path loaded = probe.at("nccl").get<std::string>();
  Check check{"NCCL", Check::kOk, loaded.string(), "", /*needed=*/false};
  std::istringstream library_path(environment_variable("LD_LIBRARY_PATH"));
  for (std::string folder; std::getline(library_path, folder, ':');) {
    std::error_code error;
    const fs::path found = fs::path(folder) / loaded.filename();
    if (folder.empty() || !fs::exists(found, error)) continue;
    if (fs::equivalent(found, loaded, error)) {
      check.state = Check::kFault;
      check.text += ", which LD_LIBRARY_PATH puts before torch's";
      check.advice = "remove " + folder + " from LD_LIBRARY_PATH";
      return check;
    }
    check.text += fmt::format("; not the one in LD_LIBRARY_PATH, {}", folder);
  }
  return check;
}

Check gpu_self_test(int gpus) {
  Check check{kGpuSelfTest, Check::kOk, "", "", /*needed=*/false};
  try {
    const Json result = self_test(gpus, "cuda");
    check.text = fmt::format("{} passed the self-test in {}, in {:.1f} s{}",
                             gpus == 1 ? "it has" : "all have",
                             result.at("compute_dtype").get<std::string>(),
                             result.at("seconds").get<double>(), links_text(result));
  } catch (const Failed& fault) {
    check.state = Check::kFault;
    check.text = fault.what();
    check.advice =
        "exclude a GPU that is named, with CUDA_VISIBLE_DEVICES; nvidia-smi -q and dmesg "
        "show its errors; NCCL_DEBUG=INFO shows how ranks are linked";
  }
  return check;
}

}  // namespace

Check worker_check() {
  Check check{"worker"};
  try {
    const Verdict verdict = check_worker();
    check.text = verdict ? worker_program().string() : verdict.fault();
    if (verdict) return check;
    check.advice = "its libraries, torch's among them, must be where they were when it was built";
  } catch (const ProgramMissing& error) {
    check.text = error.what();
    check.advice = "build it: scripts/build.sh --target programs";
  }
  check.state = Check::kFault;
  return check;
}

Check mpi_check() {
  Check check{"mpirun"};
  try {
    require_program("mpirun");
    check.text = "two ranks have passed the self-test on the CPU" + links_text(self_test(2, "cpu"));
  } catch (const ProgramMissing& error) {
    check.state = Check::kFault;
    check.text = error.what();
    check.advice = "install OpenMPI (Debian: openmpi-bin), or add it to PATH";
  } catch (const Failed& fault) {
    check.state = Check::kFault;
    check.text = std::string("two ranks fail: ") + fault.what();
    check.advice =
        "check with `mpirun --version` that it is OpenMPI; shared memory and the loopback "
        "device must be usable";
  }
  return check;
}

std::vector<Check> probe_checks() {
  try {
    const Json probe = document_of({worker_program().string(), "probe"}, kPatienceForProbe);
    if (probe.at("version") != kVersion) {
      throw Failed(fmt::format("its version is {}, that of dotresize is {}",
                               printable(probe.at("version").get<std::string>()), kVersion));
    }
    const Json& python = probe.at("python");
    std::vector<Check> checks;
    if (const std::string fault = fault_in(python); fault.empty()) {
      checks.push_back({"Python", Check::kOk, python.at("program"), ""});
    } else {
      checks.push_back(
          {"Python", Check::kFault, printable(fault, kMaxFault),
           "install requirements.txt there, or name another Python in DOTRESIZE_PYTHON; without it "
           "jobs can only use token files"});
    }
    checks.push_back(driver_check(probe));
    const Json& gpus = probe.at("gpus");
    for (size_t i = 0; i < gpus.size(); ++i) checks.push_back(gpu_check(i, gpus[i]));
    checks.push_back(module_check(probe));
    if (!probe.at("nccl").get<std::string>().empty()) checks.push_back(nccl_check(probe));
    const bool gpus_are_well = std::all_of(
        checks.begin() + 1, checks.end(), [](const Check& one) { return one.state == Check::kOk; });
    if (!gpus.empty() && gpus_are_well) {
      checks.push_back(gpu_self_test(static_cast<int>(gpus.size())));
    }
    return checks;
  } catch (const Failed& fault) {
    return {{"worker", Check::kFault, fault.what(),
             "use programs of the same build: DOTRESIZE_WORKER may name another worker"}};
  }
}

}  // namespace dotresize
