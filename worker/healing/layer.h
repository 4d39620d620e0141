#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
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

/// Copies in the dtype, none of which was made in inference mode.
LayerWeights copy_of(const LayerWeights& layer, at::ScalarType dtype);

/// The tensors that are trained, in the order of the tensor table: weights and biases of in_proj
/// and out_proj, a mixture's router among them. They share memory with the layer. Norms and
/// shortcuts stay what the maps say.
std::vector<at::Tensor> trained_tensors(const LayerWeights& layer);

/// Their names in the checkpoint of `config`, in the same order.
std::vector<std::string> trained_names(const ModelConfig& config, int64_t layer);

/// The layer's output of the stream x [batch, tokens, k_in] float32: [batch, tokens, k_out]
/// float32. `experts`: of each token in a mixture, as mixture_forward has them; undefined: those
/// that the layer chooses.
at::Tensor layer_forward(const ModelConfig& config, const LayerWeights& layer,
                         const RotaryTable& rotary, const at::Tensor& x,
                         const at::Tensor& experts = {});

}  // namespace dotresize
