#pragma once

#include <cstdint>
#include <vector>

#include "job/model_config.h"

namespace dotresize {

/// Parameters of one sublayer (norm, projections, biases, shortcut) for junction widths `k_in` and
/// `k_out`. `folded`: the norm weight is folded away and a shortcut [k_in, k_out] stored, as in a
/// compressed model.
int64_t sublayer_parameters(const ModelConfig& config, int64_t sublayer, int64_t k_in,
                            int64_t k_out, bool folded);

/// Every stored tensor of the model, tied weights once (method.md, "Net parameters").
int64_t dense_parameters(const ModelConfig& config);

/// Every stored tensor of the compressed model with these 2L+1 junction widths; embeddings are
/// untied.
int64_t compressed_parameters(const ModelConfig& config,
                              const std::vector<int64_t>& junction_widths);

/// k = floor((1-s)*d/r + 1e-9)*r; r = round_to, or 64 where d >= 2048 and else 8 if round_to is 0.
/// Throws InputError where the result is 0.
int64_t width_from_sparsity(double sparsity, int64_t hidden_size, int64_t round_to);

}  // namespace dotresize
