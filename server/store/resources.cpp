#include "server/store/resources.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <sstream>
#include <string_view>
#include <system_error>

#include "base/files/directory.h"
#include "base/text/encodings.h"
#include "base/text/human_text.h"
#include "job/spec/validate_spec.h"

namespace dotresize {
Amounts operator+(const Amounts& a, const Amounts& b) {
  return {a.ranks + b.ranks, a.gpus + b.gpus, a.memory + b.memory};
}

Amounts operator-(const Amounts& a, const Amounts& b) {
  const auto rest = [](int64_t x, int64_t y) { return std::max<int64_t>(x - y, 0); };
  return {rest(a.ranks, b.ranks), rest(a.gpus, b.gpus), rest(a.memory, b.memory)};
}

bool fits(const Amounts& need, const Amounts& free) {
  return need.ranks <= free.ranks && need.gpus <= free.gpus && need.memory <= free.memory;
}

std::optional<double> seconds_until_free(const Amounts& need, Amounts free,
                                         std::vector<Release> releases) {
  std::ranges::sort(releases, {}, &Release::seconds);
  double seconds = 0.0;
  for (auto next = releases.begin(); !fits(need, free); ++next) {
    if (next == releases.end()) return std::nullopt;
    free = free + next->amounts;
    seconds = next->seconds;
  }
  return seconds;
}

std::string shortage(const Amounts& need, const Amounts& free, const std::string& where) {
  std::vector<std::string> parts;
  const auto compare = [&](int64_t needed, int64_t available, const char* unit) {
    if (needed <= available) return;
    parts.push_back(fmt::format("{} {} ({} {})", needed, unit, available, where));
  };
  compare(need.ranks, free.ranks, "ranks");
  compare(need.gpus, free.gpus, "GPUs");
  if (need.memory > free.memory) {
    parts.push_back(fmt::format("{} of memory ({} {})", human_bytes(need.memory),
                                human_bytes(free.memory), where));
  }
  return fmt::format("{}", fmt::join(parts, ", "));
}

v1::ResourceAmounts to_message(const Amounts& resources) {
  v1::ResourceAmounts message;
  message.set_ranks(static_cast<int32_t>(resources.ranks));
  message.set_gpus(static_cast<int32_t>(resources.gpus));
  message.set_memory_bytes(resources.memory);
  return message;
}

std::vector<std::string> find_gpus() {
  if (const char* visible = std::getenv("CUDA_VISIBLE_DEVICES")) return split_gpus(visible);
  std::vector<std::string> gpus;
  constexpr std::string_view kPrefix = "nvidia";
  std::error_code error;
  for (const auto& entry : entries_of("/dev", error)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with(kPrefix) || !parse_number<uint32_t>(name.substr(kPrefix.size())))
      continue;
    gpus.push_back(std::to_string(gpus.size()));
  }
  return gpus;
}

std::vector<std::string> split_gpus(const std::string& list) {
  std::vector<std::string> gpus;
  std::istringstream stream(list);
  for (std::string gpu; std::getline(stream, gpu, ',');) gpus.push_back(gpu);
  return gpus;
}

int ranks_at_once(const v1::Job& job) {
  return ranks_of(job.spec()) * (job.has_sweep() ? job.sweep_size().parallel() : 1);
}

std::string launcher_of(const v1::Job& job) {
  return job.has_launcher() ? job.launcher() : kLocalLauncher;
}

bool runs_here(const v1::Job& job) { return launcher_of(job) == kLocalLauncher; }

bool Machine::offers(const std::string& launcher) const {
  return std::ranges::find(launchers, launcher) != launchers.end();
}

int64_t gpus_needed(v1::Resources::Device device, int64_t ranks, const Amounts& capacity) {
  if (device == v1::Resources::cpu) return 0;
  return device == v1::Resources::cuda || ranks <= capacity.gpus ? ranks : 0;
}

Amounts amounts_of(const v1::Job& launched) {
  if (!runs_here(launched) || launched.pushing()) return {};
  return {ranks_at_once(launched), std::ssize(split_gpus(launched.gpus())),
          launched.memory_bytes()};
}

Leases::Leases(const Machine& machine, const std::vector<v1::Job>& launched)
    : machine_(machine), free_gpus_(machine.gpus) {
  for (const v1::Job& job : launched) {
    if (!runs_here(job) || job.pushing()) continue;
    used_ = used_ + amounts_of(job);
    for (const std::string& gpu : split_gpus(job.gpus())) std::erase(free_gpus_, gpu);
  }
}

std::vector<std::string> Leases::take(const Amounts& need) {
  const auto end = free_gpus_.begin() + need.gpus;
  std::vector<std::string> taken(free_gpus_.begin(), end);
  free_gpus_.erase(free_gpus_.begin(), end);
  used_ = used_ + need;
  return taken;
}

}  // namespace dotresize
