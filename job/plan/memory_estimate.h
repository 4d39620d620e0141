#pragma once

#include <cstdint>

#include "job/model/model_config.h"
#include "job/plan/resolved_job.h"
#include "job/plan/shard_plan.h"

namespace dotresize {

/// The most host memory, in bytes, that a rank with this shard needs at a time, without that of the
/// libraries and of the file cache. Reads first_sublayer, end_sublayer and parameters.
int64_t estimate_peak_memory(const ModelConfig& config, const ResolvedJob& job,
                             const RankShard& shard);

}  // namespace dotresize
