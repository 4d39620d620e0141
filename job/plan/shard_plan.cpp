#include "job/plan/shard_plan.h"

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include "base/errors.h"
#include "job/model/model_size.h"
#include "job/plan/balanced_partition.h"
#include "job/plan/estimate/estimates.h"

namespace dotresize {
namespace {

/// Sets the fewest groups of sublayers that are within the budgets. If none is, a rank cuts one
/// sublayer at a time.
void set_cut_groups(const ModelConfig& config, const ResolvedJob& job, ShardPlan& plan) {
  if (!job.mlp) return;
  plan.cut_groups = 0;
  int64_t most = 1;
  const auto cut_sublayers_of = [&](const RankShard& shard) {
    return count_cut_sublayers(job, shard.first_sublayer, shard.end_sublayer);
  };
  if (job.schedule.pipelined) {
    for (const RankShard& shard : plan.ranks) most = std::max(most, cut_sublayers_of(shard));
  }
  const auto all_fit = [&] {
    return std::ranges::all_of(
        plan.ranks, [&](const RankShard& shard) { return cut_fits(config, job, shard); });
  };
  do {
    ++plan.cut_groups;
    for (RankShard& shard : plan.ranks) {
      shard.cuts_at_once =
          std::max<int64_t>(1, (cut_sublayers_of(shard) + plan.cut_groups - 1) / plan.cut_groups);
    }
  } while (plan.cut_groups < most && !all_fit());
}

/// Number of the rank's junctions that its passes share. A schedule that takes one junction at a
/// time has 1.
int64_t junctions_of(const ModelConfig& config, const ResolvedJob& job, const RankShard& shard) {
  return job.schedule.pipelined ? shard.junctions(summed_junctions(config, job)) : 1;
}

/// Sets the shards for this number of junction groups, with overlaps if the budgets have room for
/// them. Returns false if the shards exceed the budgets in any case.
bool fits_in_groups(const ModelConfig& config, const ResolvedJob& job, int64_t groups,
                    ShardPlan& plan) {
  plan.junction_groups = groups;
  for (const Checkpoints checkpoints : {Checkpoints::kSublayers, Checkpoints::kStage}) {
    if (checkpoints == Checkpoints::kStage && !job.gradients() && !job.heals()) continue;
    for (RankShard& shard : plan.ranks) shard.checkpoints = checkpoints;
    set_cut_groups(config, job, plan);
    for (const bool overlaps : {true, false}) {
      for (RankShard& shard : plan.ranks) {
        const int64_t junctions = junctions_of(config, job, shard);
        shard.junctions_at_once = std::max<int64_t>(1, (junctions + groups - 1) / groups);
        shard.overlaps = overlaps;
      }
      if (set_peaks(config, job, plan)) return true;
    }
  }
  return false;
}

/// Changes the shards, unless that exceeds the budgets. Returns true if it has changed them.
template <class Change>
bool change_if_it_fits(const ModelConfig& config, const ResolvedJob& job, const Change& change,
                       ShardPlan& plan) {
  ShardPlan changed = plan;
  for (RankShard& shard : changed.ranks) change(shard);
  if (!set_peaks(config, job, changed)) return false;
  plan = std::move(changed);
  return true;
}

/// Sets the passes for the features. If all ranks have memory for it, an allocation keeps its sums
/// until the output is cut.
void set_cut_passes(const ModelConfig& config, const ResolvedJob& job, ShardPlan& plan) {
  plan.cut_passes = plan.cut_groups;
  if (job.gradients()) plan.cut_passes_back = plan.cut_groups;
  if (!job.target.allocation) return;
  const bool has_others = expected_samples(job) > 1;
  plan.held_out_passes = has_others ? plan.cut_groups : 0;
  if (job.statistics.used()) {
    plan.cut_rounds = 2;
    plan.cut_passes = 2 * plan.cut_groups;
    plan.cut_passes_back = 0;
    return;
  }
  plan.held_out_passes += has_others ? 1 : 0;
  plan.held_out_passes_back = has_others ? 1 : 0;
  const auto keep = [](RankShard& shard) { shard.keeps_sums = true; };
  plan.cut_rounds = change_if_it_fits(config, job, keep, plan) ? 1 : 3;
  // The gradients of several groups take a pass of their own.
  plan.cut_passes = plan.cut_rounds * plan.cut_groups + (plan.cut_groups > 1 ? 1 : 0);
  plan.cut_passes_back = 1;
}

}  // namespace

ShardPlan make_shard_plan(const ModelConfig& config, const ResolvedJob& job) {
  if (job.resources.ranks < 1 || job.resources.ranks > config.num_sublayers()) {
    throw InputError(
        "resources.ranks",
        std::to_string(job.resources.ranks) + " is not from 1 to " +
            std::to_string(config.num_sublayers()) +
            ", the number of the model's sublayers (an attention and an MLP per layer)");
  }
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
  // With as many groups as the largest number of junctions of a rank, each group has at most one
  // junction per rank.
  int64_t most = 1;
  for (const RankShard& shard : plan.ranks) most = std::max(most, junctions_of(config, job, shard));
  int64_t groups = 1;
  while (!fits_in_groups(config, job, groups, plan) && groups < most) ++groups;
  if (job.mlp) set_cut_passes(config, job, plan);
  if ((job.gradients() || job.heals()) &&
      plan.ranks.front().checkpoints == Checkpoints::kSublayers) {
    const auto graphs = [](RankShard& shard) { shard.checkpoints = Checkpoints::kNone; };
    change_if_it_fits(config, job, graphs, plan);
  }
  if (job.schedule.name == "layerwise") {
    // Solve as many junctions together as there is memory for, each with another owner.
    for (int64_t together = std::min<int64_t>(job.resources.ranks, job.widths.mapped_count);
         together > 1; --together) {
      const auto change = [&](RankShard& shard) { shard.solved_together = together; };
      if (change_if_it_fits(config, job, change, plan)) break;
    }
  }
  if (takes_no_tokens(job)) return plan;
  const bool sums = sums_junctions(job);
  const int64_t of_maps = job.schedule.pipelined ? job.method.passes() * plan.junction_groups : 1;
  plan.passes = (sums ? of_maps : 0) + plan.cut_passes;
  if (job.gradients()) plan.passes_back = (sums ? plan.junction_groups : 0) + plan.cut_passes_back;
  return plan;
}

}  // namespace dotresize
