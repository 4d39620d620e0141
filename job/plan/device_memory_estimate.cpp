#include "job/plan/device_memory_estimate.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/human_text.h"

namespace dotresize {

int64_t DeviceMemory::insides_of_sublayer() const {
  const int64_t attention = 5 * attention_width() + 4 * key_width();
  const int64_t mlp = 3 * config.intermediate_size;
  const int64_t mixture = config.mixture ? 3 * (config.mixture->intermediate_size + d) : 0;
  return tokens() * compute_bytes() * std::max({attention, mlp, mixture});
}

int64_t DeviceMemory::microbatch() const {
  const int64_t streams = tokens() * d * (3 * kFloat + 2 * (kFloat + compute_bytes()));
  return streams + std::max(insides_of_sublayer(), costs());
}

int64_t DeviceMemory::costs() const {
  constexpr int64_t kHalf = 2;
  if (!job.method.transport()) return 0;
  return tokens() * d * (2 * kFloat + kHalf) + 2 * kDouble * d * d;
}

int64_t DeviceMemory::workspace() const {
  return std::max(eigenvectors(), job.method.transport() ? 7 * kDouble * d * k : 0);
}

int64_t DeviceMemory::fold(int64_t written) const {
  return fold_bytes() * (3 * largest_sublayer(/*folded=*/true) + written + 2 * d * k);
}

int64_t DeviceMemory::fold_of_stage() const {
  const bool vocabulary = first() || (last() && job.head_sliced);
  return fold(std::max(largest_sublayer(/*folded=*/true), vocabulary ? config.vocab_size * k : 0));
}

int64_t estimate_peak_device_memory(const ModelConfig& config, const ResolvedJob& job,
                                    const RankShard& shard, Dtype compute) {
  const DeviceMemory rank{{config, job, shard, compute}};
  return std::max(job.schedule.device_memory(rank), rank.evaluation());
}

std::string device_memory_warning(const RankShard& shard, int64_t free_bytes) {
  if (shard.peak_device_memory_bytes.value_or(0) <= free_bytes) return "";
  return fmt::format(
      "the plan wants {} of the GPU's memory, of which {} are free: more ranks need less each, and "
      "calibration.activations: compressed far less",
      human_bytes(*shard.peak_device_memory_bytes), human_bytes(free_bytes));
}

}  // namespace dotresize
