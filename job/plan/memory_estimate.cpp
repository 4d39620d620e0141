#include "job/plan/memory_estimate.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <vector>

#include "base/human_text.h"
#include "job/model/model_size.h"
#include "job/plan/junction_widths.h"

namespace dotresize {

int64_t MemoryModel::mapped_junctions() const {
  const int64_t end =
      std::min(shard.end_sublayer + 1, dotresize::mapped_junctions(config, job.head_sliced));
  return end - (first() ? 0 : shard.first_sublayer + 1);
}

int64_t MemoryModel::shared_groups() const {
  int64_t groups = 0;
  const auto& group_of = job.junction_groups;
  if (group_of.empty()) return groups;
  const auto end = static_cast<std::size_t>(shard.end_sublayer) + 1;
  std::size_t junction = first() ? 0 : static_cast<std::size_t>(shard.first_sublayer) + 1;
  while (junction < end) {
    const auto [begin_of, end_of] =
        std::equal_range(group_of.begin(), group_of.end(), group_of[junction]);
    if (end_of - begin_of > 1) ++groups;
    junction = static_cast<std::size_t>(end_of - group_of.begin());
  }
  return groups;
}

int64_t MemoryModel::largest_sublayer(bool folded) const {
  // Layers differ in the form of their MLP alone: one of each form is enough.
  const std::vector<bool> dense(1, false);
  const std::vector<bool>& mixtures = config.mixture ? config.mixture->layers : dense;
  int64_t largest = sublayer_parameters(config, /*sublayer=*/0, d, d, folded);
  for (const bool form : {false, true}) {
    const auto layer = std::ranges::find(mixtures, form) - mixtures.begin();
    if (layer == std::ssize(mixtures)) continue;
    largest = std::max(largest, sublayer_parameters(config, 2 * layer + 1, d, d, folded));
  }
  return largest;
}

int64_t MemoryModel::moments_of_junction() const {
  const bool pca = job.method.pca();
  const bool transport = job.method.transport();
  return d * d *
         (kDouble + (transport ? kDouble : 0) + (pca ? kDouble : 0) +
          (pca && transport ? kFloat : 0));
}

int64_t MemoryModel::moments_of_stage() const {
  return (mapped_junctions() + shared_groups()) * moments_of_junction();
}

int64_t MemoryModel::stream() const {
  const int64_t samples = (expected_samples(job) + job.ranks - 1) / job.ranks;
  return samples * seqlen * (d + k) * kFloat;
}

int64_t HostMemory::microbatch() const {
  const int64_t attention = 2 * attention_width() + 2 * key_width();
  // An expert's tokens are gathered and its results added up.
  const int64_t mixture = config.mixture ? 3 * (config.mixture->intermediate_size + d) : 0;
  return tokens() * kFloat * (2 * d + std::max({attention, 3 * config.intermediate_size, mixture}));
}

int64_t HostMemory::folding() const {
  const int64_t vocabulary = has_vocabulary() ? config.vocab_size * d : 0;
  return 3 * fold_bytes() * std::max(largest_sublayer(/*folded=*/true), vocabulary);
}

int64_t HostMemory::evaluation() const {
  return job.evaluation ? stage_weights() + 3 * microbatch() : 0;
}

int64_t estimate_peak_memory(const ModelConfig& config, const ResolvedJob& job,
                             const RankShard& shard) {
  const HostMemory rank{{config, job, shard, job.compute_dtype}};
  if (job.device == DeviceKind::kCuda) return rank.folding();
  return std::max(job.schedule.host_memory(rank), rank.evaluation());
}

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
