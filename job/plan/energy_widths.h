#pragma once

#include <cstdint>
#include <vector>

#include "job/model/model_config.h"
#include "job/plan/resolved_job.h"

namespace dotresize {

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
/// `keep`. Throws InputError if `size` asks for less than `keep`, and if the result would not be
/// smaller than the dense model unless the job allows it; std::runtime_error if a junction has no
/// energy.
JunctionWidths energy_widths(const ResolvedJob& job, const ModelConfig& config,
                             const std::vector<std::vector<double>>& spectra);

}  // namespace dotresize
