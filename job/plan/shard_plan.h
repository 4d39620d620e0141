#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

#include "job/model/model_config.h"
#include "job/plan/estimate/checkpoints.h"
#include "job/plan/resolved_job.h"

namespace dotresize {

/// Cuts costs[0..n) into `parts` contiguous, non-empty ranges whose largest sum is as small as
/// possible and, given that, whose sums are near each other. Returns parts+1 ascending boundaries
/// from 0 to n. Needs 1 <= parts <= n and finite costs >= 0. Deterministic.
std::vector<std::size_t> balanced_partition(const std::vector<double>& costs, std::size_t parts);

/// What one rank holds and does. Sublayers [first_sublayer, end_sublayer), each with the junction
/// that it writes; the first rank also has the embedding with junction 0, the last one the final
/// norm and lm_head.
struct RankShard {
  int rank = 0;
  int64_t first_sublayer = 0;
  int64_t end_sublayer = 0;
  int64_t first_junction() const { return first_sublayer == 0 ? 0 : first_sublayer + 1; }
  /// Behind the last of its junctions among the model's first `mapped`, which have maps.
  int64_t end_junction(int64_t mapped) const;
  int64_t junctions(int64_t mapped) const { return end_junction(mapped) - first_junction(); }
  /// Behind the last sublayer that comes before one of the mapped junctions: no other needs to run.
  int64_t end_run(int64_t mapped) const { return std::min(end_sublayer, mapped - 1); }
  int64_t parameters = 0;  ///< dense parameters that this rank loads
  int64_t bytes = 0;       ///< of them in the checkpoint
  /// Junctions whose moments it has memory for at a time (the schedule pipeline).
  int64_t junctions_at_once = std::numeric_limits<int64_t>::max();
  /// Junctions that as many ranks decompose and solve side by side, since it has memory to keep the
  /// stream of all of them (the schedule layerwise).
  int64_t solved_together = 1;
  /// Sublayers whose features' moments it has memory for at a time (`method.mlp`,
  /// `method.allocate`).
  int64_t cuts_at_once = std::numeric_limits<int64_t>::max();
  /// Whether it has memory for the sums of all its sublayers' features and of all its junctions at
  /// once, so that one pass over the tokens takes both (`method.allocate`).
  bool dense_round = false;
  /// Whether it has memory on the host for the sums of all its sublayers' features until they are
  /// cut (`method.allocate`).
  bool keeps_sums = false;
  /// Junctions whose tokens it has memory to see in their bases at a time (`method.allocate`).
  int64_t bases_at_once = std::numeric_limits<int64_t>::max();
  /// As few as it has memory for, and that cost no pass more over the tokens (`metric: fisher`).
  Checkpoints checkpoints = Checkpoints::kSublayers;
  /// Whether a junction is recorded, and weights are written, while the next ones are computed:
  /// unless memory is too short for that.
  bool overlaps = true;
  int64_t peak_memory_bytes = 0;  ///< estimate, host memory
  /// Estimate, of the rank's GPU, if it has or may have one.
  std::optional<int64_t> peak_device_memory_bytes = {};
};

struct ShardPlan {
  std::vector<RankShard> ranks;
  /// Each has its own passes over the tokens: as few as memory allows (the schedule pipeline).
  int64_t junction_groups = 1;
  /// Likewise of sublayers that may be cut, before the junctions; 0: none is.
  int64_t cut_groups = 0;
  /// Over the tokens, for the features of all these groups.
  int64_t cut_passes() const { return cut_groups * cut_rounds; }
  int64_t cut_rounds = 1;       ///< MlpTarget::rounds(), or one if their sums are kept
  int64_t cut_passes_back = 0;  ///< of them those that go back
  int64_t bases_groups = 1;     ///< of junctions in their bases (`method.allocate`)
  // Whether all ranks do.
  bool dense_round() const { return ranks.front().dense_round; }
  bool keeps_sums() const { return ranks.front().keeps_sums; }
  Checkpoints checkpoints() const { return ranks.front().checkpoints; }

  const RankShard& of_rank(int rank) const { return ranks.at(static_cast<std::size_t>(rank)); }
};

/// Passes over the tokens, and back, in which the junctions of the dense model tell what they may
/// lose (`method.allocate`): one for each group, unless a dense round is there anyway, and then in
/// their bases those of a part of the tokens.
double allocation_passes(const ModelConfig& config, const ResolvedJob& job, const ShardPlan& plan);
/// The same, a part counted as one.
inline int64_t allocation_rounds(const ResolvedJob& job, const ShardPlan& plan) {
  if (!job.allocation || job.statistics.used()) return 0;
  return plan.bases_groups + (plan.dense_round() ? 0 : plan.junction_groups);
}

/// Contiguous sublayers per rank, balanced by estimated time (embedding and head counted), in the
/// fewest groups of junctions whose peaks are within the job's budgets, with overlaps if there is
/// memory for them, and with the fewest checkpoints; if nothing is within them, a junction at a
/// time. MLPs likewise. Deterministic.
/// Throws InputError if there are more ranks than sublayers.
ShardPlan make_shard_plan(const ModelConfig& config, const ResolvedJob& job);

/// Whether every rank's peaks are within the job's budgets.
bool fits(const ShardPlan& plan, const ResolvedJob& job);

/// The most of any rank.
int64_t peak_memory(const ShardPlan& plan);
int64_t peak_device_memory(const ShardPlan& plan);

}  // namespace dotresize
