#pragma once

#include <cstdint>

#include "job/model/model_config.h"
#include "job/plan/estimate/rank_sizes.h"
#include "job/plan/resolved_job.h"
#include "job/plan/shard_plan.h"

namespace dotresize {

/// Estimated peak of the host memory of a rank with this shard, with the libraries and without the
/// file cache.
int64_t estimate_peak_memory(const ModelConfig& config, const ResolvedJob& job,
                             const RankShard& shard);
/// Estimated peak of the rank's GPU memory; 0 if the job does not compute on a GPU and may not.
int64_t estimate_peak_device_memory(const ModelConfig& config, const ResolvedJob& job,
                                    const RankShard& shard);

/// True if the rank's budgets have room for RankMemory::sublayer_cut with shard.cuts_at_once
/// sublayers.
bool cut_fits(const ModelConfig& config, const ResolvedJob& job, const RankShard& shard);

/// Number of tokens that all ranks together evaluate at a time. Their stream takes no more than
/// that of the calibration.
int64_t evaluation_tokens_at_once(const ResolvedJob& job, const ModelConfig& config);

}  // namespace dotresize
