#include "job/plan/shard_plan.h"

#include <algorithm>

#include "base/errors.h"
#include "job/model/model_size.h"
#include "job/plan/device_memory_estimate.h"
#include "job/plan/memory_estimate.h"
#include "job/plan/partition.h"
#include "job/plan/work_estimate.h"

namespace dotresize {
int ShardPlan::owner_of_sublayer(int64_t sublayer) const {
  const auto found = std::find_if(ranks.begin(), ranks.end(), [&](const RankShard& shard) {
    return sublayer < shard.end_sublayer;
  });
  return static_cast<int>(found - ranks.begin());
}

int ShardPlan::owner_of_junction(int64_t junction) const {
  return junction == 0 ? 0 : owner_of_sublayer(junction - 1);
}

ShardPlan make_shard_plan(const ModelConfig& config, const ResolvedJob& job) {
  if (job.ranks < 1 || job.ranks > config.num_sublayers()) {
    throw InputError(
        "resources.ranks",
        std::to_string(job.ranks) + " is not from 1 to " + std::to_string(config.num_sublayers()) +
            ", the number of the model's sublayers (an attention and an MLP per layer)");
  }
  const std::vector<std::size_t> boundaries =
      balanced_partition(estimate_work(config, job), static_cast<std::size_t>(job.ranks));
  ShardPlan plan;
  for (std::size_t rank = 0; rank + 1 < boundaries.size(); ++rank) {
    RankShard shard;
    shard.first_sublayer = static_cast<int64_t>(boundaries[rank]);
    shard.end_sublayer = static_cast<int64_t>(boundaries[rank + 1]);
    shard.parameters = shard_parameters(config, shard.first_sublayer, shard.end_sublayer);
    shard.bytes = shard.parameters * size_in_bytes(job.source_dtype);
    shard.peak_memory_bytes = estimate_peak_memory(config, job, shard);
    if (job.gpu_compute_dtype) {
      shard.peak_device_memory_bytes =
          estimate_peak_device_memory(config, job, shard, *job.gpu_compute_dtype);
    }
    plan.ranks.push_back(shard);
  }
  return plan;
}

}  // namespace dotresize
