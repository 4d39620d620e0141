#pragma once

#include <cstdint>
#include <vector>

#include "job/model/model_config.h"
#include "job/plan/resolved_job.h"

namespace dotresize {

/// Samples and length of the calibration windows as far as they are known before the tokens are
/// read: 128 windows of 2048 tokens where the job does not say.
int64_t expected_samples(const ResolvedJob& job);
int64_t expected_seqlen(const ResolvedJob& job, const ModelConfig& config);

/// Junctions 0 .. mapped_junctions()-1 get a map; a dense head leaves the last one out.
int64_t mapped_junctions(const ModelConfig& config, bool head_sliced);

/// Floating-point operations that each sublayer brings to the rank that owns it: its forward
/// passes, the moments and the map of the junction that it writes, its folding. The first sublayer
/// bears those of the embedding as well, the last one those of the head. In double: they may be
/// large.
std::vector<double> estimate_work(const ModelConfig& config, const ResolvedJob& job);

}  // namespace dotresize
