#pragma once

#include "job/model/model_config.h"
#include "job/plan/estimate/estimates.h"
#include "job/plan/net_size.h"
#include "job/plan/resolved_job.h"
#include "job/plan/served_sizes.h"
#include "job/plan/shards/rank_shard.h"

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

/// Returns the plan of a resolved job, with its own schedule.
JobPlan make_job_plan(const ModelConfig& config, ResolvedJob job);

}  // namespace dotresize
