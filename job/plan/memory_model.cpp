#include "job/plan/memory_model.h"

#include <algorithm>
#include <iterator>
#include <vector>

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

}  // namespace dotresize
