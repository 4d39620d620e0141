#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "job/model/model_config.h"
#include "worker/checkpoint/reader.h"
#include "worker/transformer/weights.h"

namespace dotresize {

// Reading of a dense or compressed checkpoint. Results are copies in `dtype`. Throws InputError for
// missing tensors, wrong shapes, values that are not finite, and values beyond the range of
// `dtype`. Tensors that the model does not use are ignored, as in transformers.

SublayerWeights load_sublayer(const CheckpointReader& reader, const ModelConfig& config,
                              int64_t sublayer, at::ScalarType dtype);

/// Loads rows [first, first + count) of the embedding or the head.
at::Tensor load_rows(const CheckpointReader& reader, const StoredTensor& matrix, int64_t first,
                     int64_t count, at::ScalarType dtype);

/// Reads the tensor once and discards it. Throws if load_rows would.
void check_values(const CheckpointReader& reader, const StoredTensor& tensor, at::ScalarType dtype);

/// Loads the tensors between the last junction and the head's matrix: a head without its weight.
HeadWeights load_before_head(const CheckpointReader& reader, const ModelConfig& config,
                             at::ScalarType dtype);

/// Returns the residual stream at junction 0 of ids [samples, seqlen] int64 on the CPU: float32
/// [samples, seqlen, k_0] on the device. Rows of the embedding are rounded to `dtype`, and
/// projected if the model has a projection. Only these rows are read.
at::Tensor embed_from(const CheckpointReader& reader, const ModelConfig& config,
                      const at::Tensor& ids, at::ScalarType dtype, at::Device device);

EmbeddingWeights load_embedding(const CheckpointReader& reader, const ModelConfig& config,
                                at::ScalarType dtype);

/// If embeddings are tied, lm_head.weight is not read even if it is there.
HeadWeights load_head(const CheckpointReader& reader, const ModelConfig& config,
                      at::ScalarType dtype);

}  // namespace dotresize
