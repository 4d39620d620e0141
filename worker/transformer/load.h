#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "job/model/model_config.h"
#include "worker/checkpoint/reader.h"
#include "worker/transformer/weights.h"

namespace dotresize {

// Reading a dense or compressed checkpoint. Everything comes as a copy in `dtype`. Throws
// InputError for missing tensors, wrong shapes, values that are not finite, and values beyond the
// range of `dtype`. Tensors that the model does not use are ignored, as transformers does.

SublayerWeights load_sublayer(const CheckpointReader& reader, const ModelConfig& config,
                              int64_t sublayer, at::ScalarType dtype);

/// Tells the system to read the sublayer's tensors from disk, and does not wait for it. Throws for
/// tensors that are missing or have wrong shapes.
void read_sublayer_ahead(const CheckpointReader& reader, const ModelConfig& config,
                         int64_t sublayer);

/// embed_tokens [vocab, k_0].
at::Tensor load_embedding(const CheckpointReader& reader, const ModelConfig& config,
                          at::ScalarType dtype);

/// If embeddings are tied, lm_head.weight is not read even if it is there.
HeadWeights load_head(const CheckpointReader& reader, const ModelConfig& config,
                      at::ScalarType dtype);

}  // namespace dotresize
