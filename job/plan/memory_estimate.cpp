#include "job/plan/memory_estimate.h"

#include <algorithm>

namespace dotresize {

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

}  // namespace dotresize
