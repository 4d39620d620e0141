#pragma once

#include <cstdint>
#include <vector>

#include "job/model/model_config.h"
#include "job/plan/resolved_job.h"

namespace dotresize {

/// Widths of such a model are multiples of it unless the job says otherwise: 8 if d < 2048; 256 for
/// `engines`, as quantizers divide rows; else 64.
int64_t default_round_to(int64_t hidden_size, bool engines);

/// round_to, 2 round_to, ... and hidden_size.
std::vector<int64_t> possible_widths(int64_t hidden_size, int64_t round_to);

/// k = floor((1-s)*d/r + 1e-9)*r; r = round_to.
/// Throws InputError if the result is 0.
int64_t width_from_sparsity(double sparsity, int64_t hidden_size, int64_t round_to);

/// The largest multiple of `round_to`, up to hidden_size, whose net bytes are at most the fraction
/// `size` of the dense model's. `job` says all else that bears on the size: map sharing, head,
/// dtypes. Throws InputError naming method.size,
/// with the smallest size that there is.
int64_t width_from_size(double size, int64_t round_to, const ModelConfig& config,
                        const ResolvedJob& job);

}  // namespace dotresize
