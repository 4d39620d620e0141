#pragma once

#include <cstdint>

#include "job/model/model_config.h"

namespace dotresize {

/// Parameters of one sublayer (norm, projections, biases, shortcut) for junction widths `k_in` and
/// `k_out`. `folded`: without a norm weight, and with a shortcut stored as one matrix [k_in,
/// k_out].
int64_t sublayer_parameters(const ModelConfig& config, int64_t sublayer, int64_t k_in,
                            int64_t k_out, bool folded);

/// Parameters of the dense sublayer that one token uses. For a mixture of experts these are the
/// router and the chosen experts, else all.
int64_t active_parameters(const ModelConfig& config, int64_t sublayer);

/// Parameters that a process with the sublayers [first, end) reads. The embedding belongs to the
/// first sublayer, final norm and head (also a tied one) to the last.
int64_t shard_parameters(const ModelConfig& config, int64_t first, int64_t end);

/// Parameters of embedding and head, with the matrices between them and the junctions. A shared
/// table counts once.
int64_t end_parameters(const ModelConfig& config);

/// Stores the ends of a compressed model with tied embeddings in the smaller of two forms: one
/// table as wide as the source's with projections to the junctions (for the head only if
/// `projects_head`), or two tables of the junctions' widths. Other models are returned unchanged.
ModelConfig with_smaller_ends(const ModelConfig& config, bool projects_head);
/// Uses the first of these two forms.
ModelConfig with_tied_ends(const ModelConfig& config, bool projects_head);

/// Parameters of all stored tensors, dense or compressed, tied weights counted once (method.md,
/// "Net parameters").
int64_t stored_parameters(const ModelConfig& config);

}  // namespace dotresize
