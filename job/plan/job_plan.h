#pragma once

#include <optional>

#include "job/model/model_config.h"
#include "job/plan/resolve_job.h"
#include "job/plan/resolved_job.h"
#include "job/plan/shard_plan.h"

namespace dotresize {

/// A resolved job with the shards of its ranks. Made in one place and carried: nothing is filled in
/// later.
struct JobPlan {
  ResolvedJob job;
  ShardPlan shards;
};

/// Resolves the job and takes the first schedule that fits its budgets, with its shards: the
/// preferred one, unless it needs many groups of junctions, or that of the interrupted run whose
/// maps the job continues with (`launch->schedule`). Throws InputError naming the key, as
/// resolve_job does, and if no schedule fits.
JobPlan plan_job(const v1::JobSpec& spec, const ModelConfig& config,
                 const std::optional<LaunchFacts>& launch = {});

}  // namespace dotresize
