#pragma once

#include "job/model/model_config.h"
#include "job/plan/resolved_job.h"
#include "job/plan/shard_plan.h"
#include "job/report/report.h"
#include "worker/commands/run/run_environment.h"

namespace dotresize {

/// Runs a whole job: perplexity of the dense model, calibration, maps, folding, the output
/// directory, perplexity of the output, report. The output appears whole or not at all. Returns the
/// report on rank 0. Throws InputError for bad data and other std::exceptions for failures; the
/// caller ends the other ranks. Collective over the ranks of the plan.
Report run_job(const ResolvedJob& job, const ModelConfig& config, const ShardPlan& plan,
               const RunEnvironment& environment);

}  // namespace dotresize
