#pragma once

#include "job/model/model_config.h"
#include "job/plan/rank_shard.h"
#include "job/plan/resolved_job.h"

namespace dotresize {

/// Gives each rank contiguous sublayers, balanced by estimated time (embedding and head counted).
/// Uses the fewest groups of junctions whose peaks are within the job's budgets, with overlaps and
/// as few checkpoints as memory allows. If nothing is within the budgets, a group has one junction
/// per rank. MLPs are grouped likewise. Deterministic. Throws InputError if there are more ranks
/// than sublayers.
ShardPlan make_shard_plan(const ModelConfig& config, const ResolvedJob& job);

}  // namespace dotresize
