#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "job/model/model_config.h"
#include "worker/transformer/layout.h"
#include "worker/transformer/weights.h"

namespace dotresize {

/// The tensors of a sublayer in a checkpoint of such a model, in writing order: the weights of
/// in_proj and out_proj, their biases, the head norms, then the norm of a dense model or the
/// shortcut of a compressed one, where the junctions on both sides have maps of their own
/// ("model.layers.3.attention_shortcut.weight" or "...mlp_shortcut.weight", nn.Linear layout
/// [k_out, k_in]).
std::vector<StoredTensor> stored_tensors(const ModelConfig& config, int64_t sublayer);

/// The same tensors' values, in the same order; the shortcut is a transposed view. Throws
/// std::logic_error where the weights are not those of such a model: a norm or a shortcut is
/// missing or too many.
std::vector<at::Tensor> stored_values(const ModelConfig& config, const SublayerWeights& weights);

}  // namespace dotresize
