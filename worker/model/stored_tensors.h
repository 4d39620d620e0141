#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "job/model_config.h"
#include "worker/model/layout.h"
#include "worker/model/weights.h"

namespace dotresize {

/// The tensors of a folded sublayer in the output, in writing order: the weights of the readers and
/// the writer, their biases, the head norms, then the shortcut
/// ("model.layers.3.attention_shortcut.weight" or
/// "...mlp_shortcut.weight", nn.Linear layout [k_out, k_in]).
std::vector<StoredTensor> folded_tensors(const ModelConfig& config, int64_t sublayer, int64_t k_in,
                                         int64_t k_out);

/// The same tensors' values, in the same order as folded_tensors; the shortcut is a transposed
/// view. Throws std::logic_error where the norm is not folded yet, or no map has made a shortcut.
std::vector<at::Tensor> folded_values(const SublayerWeights& weights);

}  // namespace dotresize
