#pragma once

#include "job/model/model_config.h"
#include "job/plan/resolved_job.h"
#include "job/plan/shards/rank_shard.h"

namespace dotresize {

/// Chooses what the ranks of the plan hold at once: the fewest groups of junctions whose peaks are
/// within the job's budgets, with overlaps and as few checkpoints as memory allows. If nothing is
/// within the budgets, a group has one junction per rank. Sublayers that are cut are grouped
/// likewise. Sets the groups, the passes of the cuts, and the peaks.
void fit_into_budgets(const ModelConfig& config, const ResolvedJob& job, ShardPlan& plan);

}  // namespace dotresize
