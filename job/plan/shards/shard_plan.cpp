#include "job/plan/shards/shard_plan.h"

#include <cstddef>
#include <vector>

#include "job/model/model_size.h"
#include "job/plan/estimate/estimates.h"
#include "job/plan/shards/balanced_partition.h"
#include "job/plan/shards/budget_fit.h"

namespace dotresize {

ShardPlan make_shard_plan(const ModelConfig& config, const ResolvedJob& job) {
  ShardPlan plan;
  const std::vector<std::size_t> boundaries =
      balanced_partition(estimate_work(config, job), static_cast<std::size_t>(job.resources.ranks));
  for (std::size_t rank = 0; rank + 1 < boundaries.size(); ++rank) {
    RankShard& shard = plan.ranks.emplace_back();
    shard.rank = static_cast<int>(rank);
    shard.first_sublayer = static_cast<int64_t>(boundaries[rank]);
    shard.end_sublayer = static_cast<int64_t>(boundaries[rank + 1]);
    shard.size = shard_size(config, shard.first_sublayer, shard.end_sublayer);
  }
  fit_into_budgets(config, job, plan);
  if (takes_no_tokens(job)) return plan;
  const bool sums = sums_junctions(job);
  const int64_t of_maps = job.schedule.pipelined ? job.method.passes() * plan.junction_groups : 1;
  plan.passes = (sums ? of_maps : 0) + plan.cut_passes;
  if (job.gradients()) plan.passes_back = (sums ? plan.junction_groups : 0) + plan.cut_passes_back;
  return plan;
}

}  // namespace dotresize
