#pragma once

#include <cstdint>
#include <vector>

#include "job/model/model_config.h"
#include "job/plan/resolved_job.h"

namespace dotresize {

/// Widths of such a model are multiples of it unless the job says otherwise: 64 if d >= 2048, else
/// 8.
int64_t default_round_to(int64_t hidden_size);

/// round_to, 2 round_to, ... and hidden_size.
std::vector<int64_t> possible_widths(int64_t hidden_size, int64_t round_to);

/// k = floor((1-s)*d/r + 1e-9)*r; r = round_to, or the default if round_to is 0.
/// Throws InputError if the result is 0.
int64_t width_from_sparsity(double sparsity, int64_t hidden_size, int64_t round_to);

/// The largest multiple of `round_to`, up to hidden_size, whose net bytes are at most the fraction
/// `size` of the dense model's. `job` says all else that bears on the size: map sharing, head,
/// dtypes. Throws InputError naming method.size,
/// with the smallest size that there is.
int64_t width_from_size(double size, int64_t round_to, const ModelConfig& config,
                        const ResolvedJob& job);

/// Refuses, before any activation is seen, a size that not even the smallest widths have.
/// Throws InputError naming method.widths.size.
void check_energy_target(const ModelConfig& config, const ResolvedJob& job);

/// The widths of a job whose target is energy, from the spectra of its mapped junctions: one row
/// per junction, the d eigenvalues of its Gram matrix, or any multiple of them, in descending
/// order.
///
/// A junction's width for the threshold t is the smallest multiple of round_to (or hidden_size, if
/// none suffices) whose leading eigenvalues hold at least t of the sum of all. With `size` t
/// is the largest threshold whose net size is within it, common to all junctions; else it is
/// `keep`. A wider junction may have a smaller shortcut, but its own matrices gain more than that
/// loses, unless heads and MLP are much narrower than the model. Throws InputError if `size` asks
/// for less than `keep`, and if the result would not be smaller than the dense model unless the job
/// allows it; std::runtime_error if a junction has no energy.
JunctionWidths energy_widths(const ResolvedJob& job, const ModelConfig& config,
                             const std::vector<std::vector<double>>& spectra);

}  // namespace dotresize
