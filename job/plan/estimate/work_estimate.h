#pragma once

#include <vector>

#include "job/model/model_config.h"
#include "job/plan/resolved_job.h"

namespace dotresize {

/// Floating-point operations that each sublayer brings to the rank that owns it: its forward
/// passes, the moments and the map of the junction that it writes, and its folding. The first
/// sublayer also has those of the embedding, the last one those of the head. Doubles, because they
/// may be large.
std::vector<double> estimate_work(const ModelConfig& config, const ResolvedJob& job);

}  // namespace dotresize
