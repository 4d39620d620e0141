#include "job/plan/shards/rank_shard.h"

#include <algorithm>

namespace dotresize {

bool fits(const ShardPlan& plan, const ResolvedJob& job) {
  return within_budget(peak_memory(plan), job.resources.memory) &&
         within_budget(peak_device_memory(plan), job.resources.device_memory);
}

int64_t peak_memory(const ShardPlan& plan) {
  return std::ranges::max(plan.ranks, {}, &RankShard::peak_memory_bytes).peak_memory_bytes;
}

int64_t peak_device_memory(const ShardPlan& plan) {
  int64_t peak = 0;
  for (const RankShard& shard : plan.ranks) {
    peak = std::max(peak, shard.peak_device_memory_bytes.value_or(0));
  }
  return peak;
}

}  // namespace dotresize
