#pragma once

#include <cstdint>

#include "job/model/model_config.h"

namespace dotresize {

/// Parameters of one sublayer (norm, projections, biases, shortcut) for junction widths `k_in` and
/// `k_out`. `folded`: the norm weight is folded away and a shortcut stored as one matrix [k_in,
/// k_out].
int64_t sublayer_parameters(const ModelConfig& config, int64_t sublayer, int64_t k_in,
                            int64_t k_out, bool folded);

/// Those of the dense sublayer that one token meets: all of them, but of a mixture of experts the
/// router's and those of the experts that it chooses.
int64_t active_parameters(const ModelConfig& config, int64_t sublayer);

/// What a process reads that has the sublayers [first, end): with the embedding if they are the
/// first ones, with final norm and head if they are the last ones, also if the head is tied.
int64_t shard_parameters(const ModelConfig& config, int64_t first, int64_t end);

/// Of the embedding and the head, with what lies between them and the junctions; a common table
/// once.
int64_t end_parameters(const ModelConfig& config);

/// A compressed model's ends: with tied embeddings one table as wide as the source's and the
/// projections between it and the junctions (that of the head if `projects_head`), or two tables of
/// the junctions' widths, whichever has fewer parameters. The same if its embeddings are not tied.
ModelConfig with_smaller_ends(const ModelConfig& config, bool projects_head);
/// The first of the two.
ModelConfig with_tied_ends(const ModelConfig& config, bool projects_head);

/// Every stored tensor of the model, dense or compressed, tied weights once (method.md, "Net
/// parameters").
int64_t stored_parameters(const ModelConfig& config);

}  // namespace dotresize
