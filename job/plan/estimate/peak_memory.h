#pragma once

#include <cstdint>

#include "job/model/model_config.h"
#include "job/plan/resolved_job.h"
#include "job/plan/shards/rank_shard.h"

namespace dotresize {

// Peaks over the steps of a job (job/plan/steps/step.h).

/// Estimated peak of the host memory of a rank with this shard, with the libraries and without the
/// file cache.
int64_t estimate_peak_memory(const ModelConfig& config, const ResolvedJob& job,
                             const RankShard& shard);
/// Estimated peak of the rank's GPU memory; 0 if the job does not compute on a GPU and may not.
int64_t estimate_peak_device_memory(const ModelConfig& config, const ResolvedJob& job,
                                    const RankShard& shard);

/// Sets these peaks of all ranks. Returns true if they are within the job's budgets.
bool set_peaks(const ModelConfig& config, const ResolvedJob& job, ShardPlan& plan);

/// True if the rank's budgets have room to cut shard.cuts_at_once sublayers.
bool cut_fits(const ModelConfig& config, const ResolvedJob& job, const RankShard& shard);

}  // namespace dotresize
