#pragma once

#include <optional>

#include "job/model/model_config.h"
#include "job/plan/estimate/estimates.h"
#include "job/plan/net_size.h"
#include "job/plan/rank_shard.h"
#include "job/plan/resolve/resolve_job.h"
#include "job/plan/resolved_job.h"
#include "job/plan/served_sizes.h"

namespace dotresize {

/// A resolved job with its shards and all sizes that follow from both. Made in one place and
/// carried: nothing is filled in later.
struct JobPlan {
  ModelConfig model;  ///< dense model
  ResolvedJob job;
  ShardPlan shards;
  /// Output with job.widths: while the loss still has to decide them, with the bound.
  ModelConfig output;
  NetSize size;        ///< sizes of `model` and `output`
  Traffic traffic;     ///< bytes that all ranks move
  ServedSizes served;  ///< sizes in the formats of engines
};

/// Returns the plan of a resolved job, with its own schedule. Throws the errors of make_shard_plan.
JobPlan make_job_plan(const ModelConfig& config, ResolvedJob job);

/// Resolves the job and takes the first schedule that fits its budgets, with its shards: the
/// preferred one, unless it needs many groups of junctions, or that of the interrupted run whose
/// maps the job continues with (`launch->schedule`). Throws InputError naming the key, as
/// resolve_job does, and if no schedule fits.
JobPlan plan_job(const v1::JobSpec& spec, const ModelConfig& config,
                 const std::optional<LaunchFacts>& launch = {},
                 const Confinement& confinement = Confinement::of_process());

}  // namespace dotresize
