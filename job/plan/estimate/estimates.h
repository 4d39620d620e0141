#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "dotresize/v1/hardware.pb.h"
#include "job/model/model_config.h"
#include "job/plan/estimate/phase_times.h"
#include "job/plan/resolved_job.h"
#include "job/plan/shards/rank_shard.h"
#include "job/plan/steps/step.h"

namespace dotresize {

// Sums over the steps of a job (job/plan/steps/step.h).

/// Floating-point operations that each sublayer brings to the rank that owns it, also for the
/// junction that it writes. The evaluation text is assumed to be as long as the calibration text.
std::vector<double> estimate_work(const ModelConfig& config, const ResolvedJob& job);

Traffic estimate_traffic(const ModelConfig& config, const ResolvedJob& job, const ShardPlan& plan);

/// Estimated time of a job. If all ranks do a step side by side, the time of the slowest one
/// counts.
struct TimeEstimate : PhaseTimes {
  /// The same seconds, by what the progress of a running job counts.
  struct Steps {
    double check = 0.0;  ///< checks before everything else
    double evaluate_dense = 0.0;
    double tokens = 0.0;     ///< calibration work that comes with each token
    double cuts = 0.0;       ///< calibration work that comes with each cut of a stage
    double junctions = 0.0;  ///< calibration work that comes with each junction's map
    double sublayers = 0.0;  ///< calibration work that comes with each sublayer of the output
    double heal = 0.0;
    double evaluate_compressed = 0.0;
    double hash = 0.0;
  };
  Steps steps = {};
};

/// Estimates the time without start-up, tokenization, and writing the report. The evaluation text
/// is assumed to be as long as the calibration text, and files to be on the disk when they are
/// first read. `job` must have been resolved with launch_facts(hardware). Throws InputError as
/// rank_rates does.
TimeEstimate estimate_time(const ModelConfig& config, const ResolvedJob& job, const ShardPlan& plan,
                           const v1::Hardware& hardware);

/// Tokens that rank 0 counts as progress in a phase.
int64_t counted_tokens(const JobParts& parts, std::string_view phase, const FoundTokens& found);

}  // namespace dotresize
