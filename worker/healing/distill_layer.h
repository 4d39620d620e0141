#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "job/model/model_config.h"
#include "job/plan/healing.h"
#include "worker/comm/communicator.h"
#include "worker/transformer/rotary.h"
#include "worker/transformer/stage/microbatches.h"
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

/// This rank's microbatches of some windows, at a layer.
struct LayerTokens {
  Microbatches x;        ///< inputs of the layer, from the compressed model so far
  Microbatches targets;  ///< outputs of the dense model in the layer's coordinates
  /// Experts chosen by the dense model, for each microbatch; empty unless the layer has a mixture.
  std::vector<at::Tensor> experts;
  int64_t first = 0;  ///< number of this rank's first microbatch among those of all ranks
  int64_t count = 0;  ///< number of microbatches on all ranks
};

/// A layer to distil (docs/method.md, "Healing"). References outlive it.
struct LayerProblem {
  const ModelConfig& config;  ///< config of the output
  const LayerContext& context;
  const LayerWeights& folded;  ///< folded weights, in their stored dtypes
  const LayerTokens& fitted;
  const LayerTokens& held_out;
  const Healing& options;
  at::Device device;
  at::ScalarType compute_dtype;  ///< float32 or bfloat16
  /// Called with the number of microbatches, on all ranks, whose gradients were computed.
  std::function<void(int64_t microbatches)> microbatches_seen;
};

struct DistilledLayer {
  LayerWeights weights;  ///< distilled or folded weights, in their stored dtypes
  /// Mean of ‖y − target‖² / (‖target‖² + d·eps) over the tokens of the held-out windows.
  double folded_error = 0.0;
  double error = 0.0;  ///< the same of `weights`
  int64_t epochs = 0;  ///< epochs behind `weights`; 0: the folded ones
};

/// Distils the layer. The result is the same on every rank, for any number of ranks. Throws
/// std::runtime_error if gradients are not finite. Inference mode must be off. Collective.
DistilledLayer distill_layer(Communicator& comm, const LayerProblem& problem);

}  // namespace dotresize
