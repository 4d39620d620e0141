#pragma once

#include <cstdint>
#include <vector>

#include "job/model/model_config.h"
#include "job/plan/resolved_job.h"

namespace dotresize {

/// Default unit of the widths: 8 if hidden_size < 2048; 256 for `engines`, because their quantizers
/// divide rows; else 64.
int64_t default_round_to(int64_t hidden_size, bool engines);

/// Widths round_to, 2 round_to, ... and hidden_size.
std::vector<int64_t> possible_widths(int64_t hidden_size, int64_t round_to);

/// Returns k = floor((1-s)*d/r + 1e-9)*r, with s = sparsity, d = hidden_size and r = round_to.
/// Throws InputError if the result is 0.
int64_t width_from_sparsity(double sparsity, int64_t hidden_size, int64_t round_to);

/// Returns the largest multiple of `round_to`, up to hidden_size, whose net bytes are at most the
/// fraction `size` of the dense model's. `job` gives everything else that affects the size: map
/// sharing, head, dtypes. Throws InputError naming method.size, with the smallest size that is
/// available.
int64_t width_from_size(double size, int64_t round_to, const ModelConfig& config,
                        const ResolvedJob& job);

}  // namespace dotresize
