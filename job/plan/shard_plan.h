#pragma once

#include <cstddef>
#include <vector>

#include "job/model/model_config.h"
#include "job/plan/rank_shard.h"
#include "job/plan/resolved_job.h"

namespace dotresize {

/// Cuts costs[0..n) into `parts` contiguous, non-empty ranges whose largest sum is as small as
/// possible and, given that, whose sums are near each other. Returns parts+1 ascending boundaries
/// from 0 to n. Needs 1 <= parts <= n and finite costs >= 0. Deterministic.
std::vector<std::size_t> balanced_partition(const std::vector<double>& costs, std::size_t parts);

/// Gives each rank contiguous sublayers, balanced by estimated time (embedding and head counted).
/// Uses the fewest groups of junctions whose peaks are within the job's budgets, with overlaps and
/// as few checkpoints as memory allows. If nothing is within the budgets, a group has one junction
/// per rank. MLPs are grouped likewise. Deterministic. Throws InputError if there are more ranks
/// than sublayers.
ShardPlan make_shard_plan(const ModelConfig& config, const ResolvedJob& job);

}  // namespace dotresize
