#include "job/plan/shard_plan.h"

#include "job/plan/token_windows.h"

namespace dotresize {
namespace {

constexpr int64_t kUnlimited = std::numeric_limits<int64_t>::max();

}  // namespace

int64_t RankShard::end_junction(int64_t mapped) const {
  return std::max(first_junction(), std::min(end_sublayer + 1, mapped));
}

double allocation_passes(const ModelConfig& config, const ResolvedJob& job, const ShardPlan& plan) {
  if (!job.target.allocation || job.statistics.used()) return 0.0;
  const int64_t windows = expected_samples(job);
  const double share =
      static_cast<double>(sampled_loss_increase_windows(windows, expected_seqlen(job, config))) /
      static_cast<double>(windows);
  return static_cast<double>(plan.dense_round() ? 0 : plan.junction_groups) +
         static_cast<double>(plan.bases_groups) * share;
}

bool fits(const ShardPlan& plan, const ResolvedJob& job) {
  return peak_memory(plan) <= job.resources.memory.value_or(kUnlimited) &&
         peak_device_memory(plan) <= job.resources.device_memory.value_or(kUnlimited);
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
