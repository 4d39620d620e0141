#pragma once

#include <cstdint>
#include <string>

#include "job/model/model_config.h"
#include "job/plan/resolved_job.h"
#include "job/plan/shard_plan.h"

namespace dotresize {

/// The most memory of its GPU, in bytes, that a rank with this shard needs at a time, computing in
/// `compute`; without that of the libraries (CUDA, cuBLAS, cuSOLVER and NCCL take about 1 GiB) and
/// what the allocator loses to fragments. Reads first_sublayer, end_sublayer and parameters.
int64_t estimate_peak_device_memory(const ModelConfig& config, const ResolvedJob& job,
                                    const RankShard& shard, Dtype compute);

/// What to say to a rank with this shard whose GPU has so much free memory; empty where the
/// estimate fits, or there is none.
std::string device_memory_warning(const RankShard& shard, int64_t free_bytes);

}  // namespace dotresize
