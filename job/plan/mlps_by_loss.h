#pragma once

#include <cstdint>
#include <vector>

#include "job/model/model_config.h"
#include "job/plan/resolved_job.h"

namespace dotresize {

// `method.mlp.widths: by_loss`: the removal of features tells of each MLP what it loses at every
// width, and all MLPs together keep what they would with the same width for all.

/// That the sublayer's MLP, or each of its experts, may get: all features, then multiples of
/// round_to, descending. The last one is as narrow as it is if the others lose nothing, and
/// round_to at least; with `method.allocate` round_to.
std::vector<int64_t> possible_mlp_widths(const ModelConfig& config, const MlpTarget& target,
                                         int64_t sublayer);

/// The model with the widths that are predicted to raise the loss least, of which the output has no
/// more parameters than with the same width for all. rises: [L] of each layer's MLP, at each of its
/// possible widths, the predicted rise, of all experts together. `config` is the dense model's.
/// Deterministic. Throws std::invalid_argument for rises that are not finite or not as many.
ModelConfig with_mlps_by_loss(const ModelConfig& config, const ResolvedJob& job,
                              const std::vector<std::vector<double>>& rises);

/// Whether the output's parameters are known before its widths are: if all MLPs are alike and
/// nothing is lost to rounding, every allocation has those of the same width for all. Else, if by
/// loss, that is an upper bound: with a dense head a feature of the last layer has more of them.
bool mlp_parameters_known(const ModelConfig& config, const ResolvedJob& job);

}  // namespace dotresize
