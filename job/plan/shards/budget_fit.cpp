#include "job/plan/shards/budget_fit.h"

#include <algorithm>
#include <utility>

#include "job/plan/estimate/peak_memory.h"

namespace dotresize {
namespace {

/// A plan of which parts are tried against the budgets. References outlive the object.
class BudgetFit {
 public:
  BudgetFit(const ModelConfig& config, const ResolvedJob& job, ShardPlan& plan)
      : config_(config), job_(job), plan_(plan), summed_(summed_junctions(config, job)) {}

  void choose();

 private:
  /// Number of the rank's junctions that its passes share. A schedule that takes one junction at a
  /// time has 1.
  int64_t junctions_of(const RankShard& shard) const {
    return job_.schedule.pipelined ? shard.junctions(summed_) : 1;
  }
  int64_t cut_sublayers_of(const RankShard& shard) const {
    return count_cut_sublayers(job_, shard.first_sublayer, shard.end_sublayer);
  }
  void set_cut_groups();
  bool fits_in_groups(int64_t groups);
  template <class Change>
  bool change_if_it_fits(const Change& change);
  void set_cut_passes();

  const ModelConfig& config_;
  const ResolvedJob& job_;
  ShardPlan& plan_;
  const int64_t summed_;
};

/// Sets the fewest groups of sublayers that are within the budgets. If none is, a rank cuts one
/// sublayer at a time.
void BudgetFit::set_cut_groups() {
  if (!job_.mlp) return;
  plan_.cut_groups = 0;
  int64_t most = 1;
  if (job_.schedule.pipelined) {
    for (const RankShard& shard : plan_.ranks) most = std::max(most, cut_sublayers_of(shard));
  }
  const auto all_fit = [&] {
    return std::ranges::all_of(
        plan_.ranks, [&](const RankShard& shard) { return cut_fits(config_, job_, shard); });
  };
  do {
    ++plan_.cut_groups;
    for (RankShard& shard : plan_.ranks) {
      shard.cuts_at_once =
          std::max<int64_t>(1, (cut_sublayers_of(shard) + plan_.cut_groups - 1) / plan_.cut_groups);
    }
  } while (plan_.cut_groups < most && !all_fit());
}

/// Sets the shards for this number of junction groups, with overlaps if the budgets have room for
/// them. Returns false if the shards exceed the budgets in any case.
bool BudgetFit::fits_in_groups(int64_t groups) {
  plan_.junction_groups = groups;
  for (const Checkpoints checkpoints : {Checkpoints::kSublayers, Checkpoints::kStage}) {
    if (checkpoints == Checkpoints::kStage && !job_.gradients() && !job_.heals()) continue;
    for (RankShard& shard : plan_.ranks) shard.checkpoints = checkpoints;
    set_cut_groups();
    for (const bool overlaps : {true, false}) {
      for (RankShard& shard : plan_.ranks) {
        shard.junctions_at_once = std::max<int64_t>(1, (junctions_of(shard) + groups - 1) / groups);
        shard.overlaps = overlaps;
      }
      if (set_peaks(config_, job_, plan_)) return true;
    }
  }
  return false;
}

/// Changes the shards, unless that exceeds the budgets. Returns true if it has changed them.
template <class Change>
bool BudgetFit::change_if_it_fits(const Change& change) {
  ShardPlan changed = plan_;
  for (RankShard& shard : changed.ranks) change(shard);
  if (!set_peaks(config_, job_, changed)) return false;
  plan_ = std::move(changed);
  return true;
}

/// Sets the passes for the features. If all ranks have memory for it, an allocation keeps its sums
/// until the output is cut.
void BudgetFit::set_cut_passes() {
  plan_.cut_passes = plan_.cut_groups;
  if (job_.gradients()) plan_.cut_passes_back = plan_.cut_groups;
  if (!job_.target.allocation) return;
  const bool has_others = expected_samples(job_) > 1;
  plan_.held_out_passes = has_others ? plan_.cut_groups : 0;
  if (job_.statistics.used()) {
    plan_.cut_rounds = 2;
    plan_.cut_passes = 2 * plan_.cut_groups;
    plan_.cut_passes_back = 0;
    return;
  }
  plan_.held_out_passes += has_others ? 1 : 0;
  plan_.held_out_passes_back = has_others ? 1 : 0;
  const auto keep = [](RankShard& shard) { shard.keeps_sums = true; };
  plan_.cut_rounds = change_if_it_fits(keep) ? 1 : 3;
  // The gradients of several groups take a pass of their own.
  plan_.cut_passes = plan_.cut_rounds * plan_.cut_groups + (plan_.cut_groups > 1 ? 1 : 0);
  plan_.cut_passes_back = 1;
}

void BudgetFit::choose() {
  // With as many groups as the largest number of junctions of a rank, each group has at most one
  // junction per rank.
  int64_t most = 1;
  for (const RankShard& shard : plan_.ranks) most = std::max(most, junctions_of(shard));
  int64_t groups = 1;
  while (!fits_in_groups(groups) && groups < most) ++groups;
  if (job_.mlp) set_cut_passes();
  if ((job_.gradients() || job_.heals()) &&
      plan_.ranks.front().checkpoints == Checkpoints::kSublayers) {
    change_if_it_fits([](RankShard& shard) { shard.checkpoints = Checkpoints::kNone; });
  }
  if (job_.schedule.name != "layerwise") return;
  // Solve as many junctions together as there is memory for, each with another owner.
  for (int64_t together = std::min<int64_t>(job_.resources.ranks, job_.widths.mapped_count);
       together > 1; --together) {
    if (change_if_it_fits([&](RankShard& shard) { shard.solved_together = together; })) return;
  }
}

}  // namespace

void fit_into_budgets(const ModelConfig& config, const ResolvedJob& job, ShardPlan& plan) {
  BudgetFit(config, job, plan).choose();
}

}  // namespace dotresize
