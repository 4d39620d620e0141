#include "job/plan/make_shard_plan.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "base/errors.h"
#include "job/model/model_size.h"
#include "job/plan/allocate/inner_widths.h"
#include "job/plan/estimate/memory_estimate.h"
#include "job/plan/estimate/work_counts.h"
#include "job/plan/token_windows.h"

namespace dotresize {
namespace {

/// Fewest ranges of sum <= bound that cover the costs from each start on; n+1 if one cost alone is
/// above the bound. Each range takes as much as fits, which is optimal.
std::vector<std::size_t> ranges_needed(const std::vector<double>& prefix, double bound) {
  const std::size_t n = prefix.size() - 1;
  std::vector<std::size_t> needed(n + 1, 0);
  std::size_t end = n;
  for (std::size_t start = n; start-- > 0;) {
    while (end > start && prefix[end] - prefix[start] > bound) --end;
    needed[start] = end == start ? n + 1 : std::min(n + 1, 1 + needed[end]);
  }
  return needed;
}

/// Smallest bound, to the last bit, that `parts` ranges can keep.
double smallest_bound(const std::vector<double>& prefix, std::size_t parts) {
  double too_small = -1.0;
  double enough = prefix.back();
  while (true) {
    const double middle = too_small + (enough - too_small) / 2;
    if (middle <= too_small || middle >= enough) return enough;
    (ranges_needed(prefix, middle)[0] <= parts ? enough : too_small) = middle;
  }
}

/// Share of costs[start..) that each of `parts` ranges gets in the best case. A cost above that
/// share has a range to itself, and the others share the remaining ranges.
double fair_share(const std::vector<double>& costs, std::size_t start, std::size_t parts) {
  double fair = std::numeric_limits<double>::infinity();
  while (true) {
    double shared = 0.0;
    std::size_t ranges = parts;
    for (std::size_t i = start; i < costs.size(); ++i) {
      if (costs[i] > fair && ranges > 1) {
        --ranges;
      } else {
        shared += costs[i];
      }
    }
    const double next = shared / static_cast<double>(ranges);
    if (!(next < fair)) return fair;
    fair = next;
  }
}

ShardPlan partition_of(const ModelConfig& config, const ResolvedJob& job) {
  const std::vector<std::size_t> boundaries =
      balanced_partition(estimate_work(config, job), static_cast<std::size_t>(job.resources.ranks));
  ShardPlan plan;
  for (std::size_t rank = 0; rank + 1 < boundaries.size(); ++rank) {
    RankShard& shard = plan.ranks.emplace_back();
    shard.rank = static_cast<int>(rank);
    shard.first_sublayer = static_cast<int64_t>(boundaries[rank]);
    shard.end_sublayer = static_cast<int64_t>(boundaries[rank + 1]);
    shard.parameters = shard_parameters(config, shard.first_sublayer, shard.end_sublayer);
    shard.bytes = shard.parameters * size_in_bytes(job.model.dtype);
  }
  return plan;
}

/// Largest number of junctions of a rank. With that many groups, each has at most one junction per
/// rank. A schedule that takes one junction at a time has no groups: 1.
int64_t most_junctions(const ModelConfig& config, const ResolvedJob& job, const ShardPlan& plan) {
  int64_t most = 1;
  if (!job.schedule.pipelined) return most;
  const int64_t summed = summed_junctions(config, job);
  for (const RankShard& shard : plan.ranks) most = std::max(most, shard.junctions(summed));
  return most;
}

int64_t cut_sublayers_of(const ResolvedJob& job, const RankShard& shard) {
  return count_cut_sublayers(job, shard.first_sublayer, shard.end_sublayer);
}

/// Sets the fewest groups of sublayers that are within the budgets. If none is, a rank cuts one
/// sublayer at a time.
void set_cut_groups(const ModelConfig& config, const ResolvedJob& job, ShardPlan& plan) {
  if (!job.mlp) return;
  plan.cut_groups = 0;
  plan.cut_rounds = job.mlp->rounds();
  int64_t most = 1;
  if (job.schedule.pipelined) {
    for (const RankShard& shard : plan.ranks) most = std::max(most, cut_sublayers_of(job, shard));
  }
  const auto all_fit = [&] {
    return std::ranges::all_of(
        plan.ranks, [&](const RankShard& shard) { return cut_fits(config, job, shard); });
  };
  do {
    ++plan.cut_groups;
    for (RankShard& shard : plan.ranks) {
      shard.cuts_at_once = std::max<int64_t>(
          1, (cut_sublayers_of(job, shard) + plan.cut_groups - 1) / plan.cut_groups);
    }
  } while (plan.cut_groups < most && !all_fit());
}

int64_t junctions_of(const ModelConfig& config, const ResolvedJob& job, const RankShard& shard) {
  return job.schedule.pipelined ? shard.junctions(summed_junctions(config, job)) : 1;
}

void set_peaks(const ModelConfig& config, const ResolvedJob& job, ShardPlan& plan) {
  for (RankShard& shard : plan.ranks) {
    shard.peak_memory_bytes = estimate_peak_memory(config, job, shard);
    if (job.resources.gpu_compute_dtype) {
      shard.peak_device_memory_bytes = estimate_peak_device_memory(config, job, shard);
    }
  }
}

void set_groups(const ModelConfig& config, const ResolvedJob& job, int64_t groups, bool overlaps,
                ShardPlan& plan) {
  plan.junction_groups = groups;
  for (RankShard& shard : plan.ranks) {
    shard.junctions_at_once =
        std::max<int64_t>(1, (junctions_of(config, job, shard) + groups - 1) / groups);
    shard.overlaps = overlaps;
    shard.bases_at_once = 1;
  }
  set_peaks(config, job, plan);
}

/// Changes the shards, unless that exceeds the budgets. Returns true if it has changed them.
template <class Change>
bool change_if_it_fits(const ModelConfig& config, const ResolvedJob& job, const Change& change,
                       ShardPlan& plan) {
  ShardPlan changed = plan;
  for (RankShard& shard : changed.ranks) change(shard);
  set_peaks(config, job, changed);
  if (!fits(changed, job)) return false;
  plan = std::move(changed);
  return true;
}

/// True if the computing devices have memory beside the host's.
bool is_gpu_job(const ResolvedJob& job) { return job.resources.device == DeviceKind::kCuda; }

/// Saves passes if all ranks have memory for it: one pass takes features and junctions together,
/// and sums are kept until they are cut.
void set_allocation(const ModelConfig& config, const ResolvedJob& job, int64_t most,
                    ShardPlan& plan) {
  if (!job.target.allocation) return;
  if (job.statistics.used()) {  // the curves are given: only a trial and the output are cut
    plan.cut_rounds = 2;
    return;
  }
  const auto keep = [](RankShard& shard) { shard.keeps_sums = true; };
  if (is_gpu_job(job)) change_if_it_fits(config, job, keep, plan);
  if (plan.cut_groups == 1 && plan.junction_groups == 1) {
    const auto together = [&](RankShard& shard) {
      shard.dense_round = true;
      if (!is_gpu_job(job)) keep(shard);
    };
    change_if_it_fits(config, job, together, plan);
  }
  if (plan.keeps_sums()) plan.cut_rounds = 1;
  for (plan.bases_groups = 1; plan.bases_groups < most; ++plan.bases_groups) {
    const auto fewer = [&](RankShard& shard) {
      const int64_t junctions = junctions_of(config, job, shard);
      shard.bases_at_once =
          std::max<int64_t>(1, (junctions + plan.bases_groups - 1) / plan.bases_groups);
    };
    if (change_if_it_fits(config, job, fewer, plan)) return;
  }
}

/// Solves as many junctions together as there is memory for, each with another owner.
void set_solved_together(const ModelConfig& config, const ResolvedJob& job, ShardPlan& plan) {
  if (job.schedule.name != "layerwise") return;
  for (int64_t together = std::min<int64_t>(job.resources.ranks, job.widths.mapped_count);
       together > 1; --together) {
    const auto change = [&](RankShard& shard) { shard.solved_together = together; };
    if (change_if_it_fits(config, job, change, plan)) return;
  }
}

/// Number of passes for the features that also go back. None goes back unless the gradients behind
/// the features are summed for their curve or cut.
int64_t cut_passes_back(const ResolvedJob& job, const ShardPlan& plan) {
  if (!job.gradients() || plan.cut_groups == 0) return 0;
  if (job.statistics.used()) return 0;
  if (job.target.allocation)
    return plan.dense_round() || !job.maps.head_sliced ? plan.cut_groups : 0;
  return plan.cut_groups;
}

}  // namespace

std::vector<std::size_t> balanced_partition(const std::vector<double>& costs, std::size_t parts) {
  const std::size_t n = costs.size();
  std::vector<double> prefix(n + 1, 0.0);
  std::partial_sum(costs.begin(), costs.end(), prefix.begin() + 1);
  const double bound = smallest_bound(prefix, parts);
  const std::vector<std::size_t> needed = ranges_needed(prefix, bound);

  std::vector<std::size_t> boundaries = {0};
  for (std::size_t left = parts - 1; left > 0; --left) {
    const std::size_t start = boundaries.back();
    const double fair = fair_share(costs, start, left + 1);
    std::size_t best = n;
    // Consider only ends that keep the bound here and leave each later range something to take.
    for (std::size_t end = start + 1; end + left <= n; ++end) {
      if (prefix[end] - prefix[start] > bound) break;
      if (needed[end] > left) continue;
      const auto off = [&](std::size_t e) { return std::abs(prefix[e] - prefix[start] - fair); };
      if (best == n || off(end) < off(best)) best = end;
    }
    boundaries.push_back(best);
  }
  boundaries.push_back(n);
  return boundaries;
}

ShardPlan make_shard_plan(const ModelConfig& config, const ResolvedJob& job) {
  if (job.resources.ranks < 1 || job.resources.ranks > config.num_sublayers()) {
    throw InputError(
        "resources.ranks",
        std::to_string(job.resources.ranks) + " is not from 1 to " +
            std::to_string(config.num_sublayers()) +
            ", the number of the model's sublayers (an attention and an MLP per layer)");
  }
  ShardPlan plan = partition_of(config, job);
  const int64_t most = most_junctions(config, job, plan);
  const auto try_groups = [&](int64_t groups) {
    for (const Checkpoints checkpoints : {Checkpoints::kSublayers, Checkpoints::kStage}) {
      if (checkpoints == Checkpoints::kStage && !job.gradients() && !job.heals()) continue;
      for (RankShard& shard : plan.ranks) shard.checkpoints = checkpoints;
      set_cut_groups(config, job, plan);
      for (const bool overlaps : {true, false}) {
        set_groups(config, job, groups, overlaps, plan);
        if (fits(plan, job)) return true;
      }
    }
    return false;
  };
  int64_t groups = 1;
  while (!try_groups(groups) && groups < most) ++groups;
  set_allocation(config, job, most, plan);
  if ((job.gradients() || job.heals()) && plan.checkpoints() == Checkpoints::kSublayers) {
    const auto graphs = [](RankShard& shard) { shard.checkpoints = Checkpoints::kNone; };
    change_if_it_fits(config, job, graphs, plan);
  }
  set_solved_together(config, job, plan);
  plan.cut_passes_back = cut_passes_back(job, plan);
  if (takes_no_tokens(job)) return plan;
  const bool sums = sums_junctions(job);
  const int64_t of_maps = job.schedule.pipelined ? job.method.passes() * plan.junction_groups : 1;
  plan.passes = (sums ? of_maps : 0) + allocation_rounds(job, plan) + plan.cut_passes();
  if (!job.gradients()) return plan;
  plan.passes_back =
      (sums ? plan.junction_groups : 0) + allocation_rounds(job, plan) + plan.cut_passes_back;
  return plan;
}

}  // namespace dotresize
