#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "job/model/model_config.h"
#include "worker/transformer/rotary.h"
#include "worker/transformer/weights.h"

namespace dotresize {

/// A decoder layer of the output.
struct LayerWeights {
  SublayerWeights attention;
  SublayerWeights mlp;
};

/// Returns copies in the dtype. They are not inference tensors if inference mode is off.
LayerWeights copy_of(const LayerWeights& layer, at::ScalarType dtype);

/// Returns copies in the dtypes that the tensors have in the checkpoint of `config`.
LayerWeights stored_copy_of(const LayerWeights& layer, const ModelConfig& config);

/// Returns the trained tensors, in the order of the tensor table: weights and biases of in_proj and
/// out_proj, including a mixture's router. They share memory with the layer. Norms and shortcuts
/// are not trained.
std::vector<at::Tensor> trained_tensors(const LayerWeights& layer);

/// Returns the names of trained_tensors in the checkpoint of `config`, in the same order.
std::vector<std::string> trained_names(const ModelConfig& config, int64_t layer);

/// Returns the layer's output for the stream x [batch, tokens, k_in] float32: [batch, tokens,
/// k_out] float32. `experts`: the experts of each token in a mixture, as in mixture_forward;
/// undefined: chosen by the layer.
at::Tensor layer_forward(const ModelConfig& config, const LayerWeights& layer,
                         const LayerContext& context, const at::Tensor& x,
                         const at::Tensor& experts = {});

}  // namespace dotresize
