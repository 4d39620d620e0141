#pragma once

#include <cstdint>

#include "job/model/model_config.h"
#include "job/model/tensor_table.h"

namespace dotresize {

/// Size of one sublayer (norm, projections, biases, shortcut) for junction widths `k_in` and
/// `k_out`. `folded`: without a norm weight, and with a shortcut stored as one matrix [k_in,
/// k_out].
TensorsSize sublayer_size(const ModelConfig& config, int64_t sublayer, int64_t k_in, int64_t k_out,
                          bool folded);
int64_t sublayer_parameters(const ModelConfig& config, int64_t sublayer, int64_t k_in,
                            int64_t k_out, bool folded);

/// Parameters of the dense sublayer that one token uses. For a mixture of experts these are the
/// router and the chosen experts, else all.
int64_t active_parameters(const ModelConfig& config, int64_t sublayer);

/// Multiplications for each token of a prompt: entries of the matrices that it uses, the head's
/// among them. Products of queries and keys, and of scores and values, which depend on the length
/// of the prompt, are not counted.
int64_t prompt_multiplications(const ModelConfig& config);

/// Size of what a process with the sublayers [first, end) reads. The embedding belongs to the first
/// sublayer, final norm and head (also a tied one) to the last.
TensorsSize shard_size(const ModelConfig& config, int64_t first, int64_t end);

/// Size of embedding and head, with the matrices between them and the junctions. A shared table
/// counts once.
TensorsSize end_size(const ModelConfig& config);
/// Size of the embedding's matrix, and of the head's, which is the same if they are tied.
TensorsSize embedding_matrix_size(const ModelConfig& config);
TensorsSize head_matrix_size(const ModelConfig& config);

/// Stores the ends of a compressed model with tied embeddings in the form with fewer bytes: one
/// table as wide as the source's with projections to the junctions (for the head only if
/// `projects_head`), or two tables of the junctions' widths. Other models are returned unchanged.
ModelConfig with_smaller_ends(const ModelConfig& config, bool projects_head);

/// Size of all stored tensors, dense or compressed, tied weights counted once (method.md, "Net
/// parameters").
TensorsSize stored_size(const ModelConfig& config);
int64_t stored_parameters(const ModelConfig& config);
int64_t stored_bytes(const ModelConfig& config);
/// Returns the model with other dtypes.
ModelConfig with_dtypes(ModelConfig config, const StoredDtypes& dtypes);

}  // namespace dotresize
