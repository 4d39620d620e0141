#include "worker/cuda/choose_device.h"

#include <c10/util/Exception.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <regex>
#include <stdexcept>
#include <vector>

#include "base/errors.h"
#include "base/process/environment.h"

namespace dotresize {
namespace {

using Json = nlohmann::json;

/// Result of a rank's search: its GPU, or the reason why it has none.
struct Finding {
  std::optional<GpuInfo> gpu;
  std::string reason;
  CudaModule* module = nullptr;
  int device = 0;
};

Finding find_gpu(int local_rank) {
  Finding found;
  found.reason = ask_driver().fault;
  if (!found.reason.empty()) return found;
  try {
    found.module = &open_cuda_module();
    const int count = found.module->device_count();
    if (count == 0) throw std::runtime_error("libtorch finds no GPU that it can use");
    found.device = local_rank % count;
    const GpuInfo info = found.module->info(found.device);
    const std::string reason =
        why_no_code_for(info.capability, gpu_code(found.module->libtorch_flags()));
    if (!reason.empty()) throw std::runtime_error(info.name + ": " + reason);
    found.module->try_out(found.device);
    found.gpu = info;
  } catch (const c10::Error& error) {
    found.reason = error.what_without_backtrace();
  } catch (const std::exception& error) {
    found.reason = error.what();
  }
  return found;
}

/// Judges all ranks' findings: {"reason", "capability", "any"}. The reason is empty if each rank
/// has its own GPU. "any": a rank has a GPU.
Json judge(const std::vector<std::string>& findings) {
  const bool any = std::ranges::any_of(
      findings, [](const std::string& text) { return Json::parse(text).contains("uuid"); });
  std::map<std::string, int> owners;
  int capability = 1000;
  for (size_t rank = 0; rank < findings.size(); ++rank) {
    const Json found = Json::parse(findings[rank]);
    const std::string who = "rank " + std::to_string(rank);
    if (!found.contains("uuid")) {
      return {{"reason", who + ": " + found.at("reason").get<std::string>()}, {"any", any}};
    }
    const auto [owner, first] = owners.emplace(found.at("uuid"), static_cast<int>(rank));
    if (!first && !ranks_share_gpus()) {
      return {{"reason", who + " would share a GPU with rank " + std::to_string(owner->second) +
                             "; start at most one rank per GPU on a host"},
              {"any", any}};
    }
    capability = std::min(capability, found.at("capability").get<int>());
  }
  return {{"reason", ""}, {"capability", capability}, {"any", any}};
}

}  // namespace

ChosenDevice choose_device(std::optional<DeviceKind> asked, Communicator& comm, int local_rank) {
  if (asked == DeviceKind::kCpu) return {};
  const Finding mine = find_gpu(local_rank);
  Json finding = {{"reason", mine.reason}};
  if (mine.gpu) finding.update({{"uuid", mine.gpu->uuid}, {"capability", mine.gpu->capability}});
  const std::vector<std::string> findings =
      gather_strings(comm, finding.dump(-1, ' ', false, Json::error_handler_t::replace), 0);
  const Json verdict = Json::parse(
      broadcast_string(comm, comm.rank() == 0 ? judge(findings).dump() : std::string(), 0));
  const std::string reason = verdict.at("reason");
  if (reason.empty()) {
    mine.module->use(mine.device);
    const int capability = mine.gpu->capability;
    return {at::Device(at::kCUDA, static_cast<c10::DeviceIndex>(mine.device)), mine.module,
            mine.gpu->name + " (sm_" + std::to_string(capability) + ")",
            verdict.at("capability").get<int>()};
  }
  if (!asked) {
    ChosenDevice cpu;
    if (verdict.at("any")) cpu.why_not_cuda = "all ranks compute on the CPU: " + reason;
    return cpu;
  }
  throw InputError("resources.device", "cuda cannot be used: " + reason);
}

GpuCode gpu_code(const std::string& flags) {
  static const std::regex kCode("code=(sm|compute)_([0-9]{2,3})(?![0-9a-z])");
  GpuCode code;
  for (std::sregex_iterator found(flags.begin(), flags.end(), kCode), end; found != end; ++found) {
    (found->str(1) == "sm" ? code.binaries : code.portable).push_back(std::stoi(found->str(2)));
  }
  return code;
}

std::string why_no_code_for(int capability, const GpuCode& code) {
  const bool binary = std::ranges::any_of(code.binaries, [capability](int one) {
    return one / 10 == capability / 10 && one <= capability;
  });
  const bool portable =
      std::ranges::any_of(code.portable, [capability](int one) { return one <= capability; });
  if (binary || portable) return "";
  return fmt::format(
      "libtorch has no kernels for sm_{}, only for sm_{}: install a torch that has them",
      capability, fmt::join(code.binaries, ", sm_"));
}

}  // namespace dotresize
