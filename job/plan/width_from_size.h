#pragma once

#include <cstdint>

#include "job/model/model_config.h"
#include "job/plan/resolved_job.h"

namespace dotresize {

/// The largest multiple of `round_to`, up to hidden_size, whose net bytes are at most the fraction
/// `size` of the dense model's. `job` says all else that bears on the size: map sharing, head,
/// dtypes. Every stored tensor's extents grow with the width or do not depend on it, so the bytes
/// grow with it, and one more step would exceed the size. Throws InputError naming method.size,
/// with the smallest size that there is.
int64_t width_from_size(double size, int64_t round_to, const ModelConfig& config,
                        const ResolvedJob& job);

}  // namespace dotresize
