#pragma once

#include "job/model/model_config.h"
#include "job/plan/resolved_job.h"
#include "job/plan/shards/rank_shard.h"

namespace dotresize {

/// Gives each rank contiguous sublayers, balanced by estimated time (embedding and head counted),
/// and fits what it holds at once into the budgets (budget_fit.h). Needs as many ranks as sublayers
/// at most, which job_resources() checks. Deterministic.
ShardPlan make_shard_plan(const ModelConfig& config, const ResolvedJob& job);

}  // namespace dotresize
