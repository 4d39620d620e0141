#pragma once

#include <cstdint>
#include <vector>

#include "job/model/model_config.h"
#include "job/plan/device.h"
#include "job/plan/resolved_job.h"
#include "job/plan/shard_plan.h"
#include "worker/commands/progress.h"

namespace dotresize {

inline constexpr char kPreparePhase[] = "prepare";

/// Sizes of a job's token sets.
struct JobSize {
  int64_t calibration = 0;
  int64_t evaluation = 0;
  int64_t healing_windows = 0;
  int64_t seqlen = 0;  ///< tokens of a healing window
};

/// Returns the phases of a job on rank 0, each with its expected time on a machine like this one
/// (reference_hardware).
std::vector<ProgressPhase> expected_phases(const ModelConfig& config, const ResolvedJob& job,
                                           const ShardPlan& plan, const JobSize& size,
                                           const DeviceFacts& device);

}  // namespace dotresize
