#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "job/model/model_config.h"
#include "job/model/tensor_table.h"
#include "worker/comm/communicator.h"

namespace dotresize {

/// Low-rank update B·A added to a weight, float32. Both undefined: no update.
struct LowRankUpdate {
  at::Tensor A;  ///< [rank, in]
  at::Tensor B;  ///< [out, rank]
};

struct Linear {
  at::Tensor weight;          ///< [out, in]
  at::Tensor bias;            ///< [out], or undefined
  LowRankUpdate update = {};  ///< not a tensor of the checkpoint; not applied to a router
};

/// Weights of one sublayer: dense, folded on one side, or folded. All of one dtype (held_dtype).
struct SublayerWeights {
  int64_t sublayer = 0;
  at::Tensor norm;            ///< γ [d]; undefined once folded into in_proj
  at::Tensor post_norm = {};  ///< weight of the norm behind out_proj [d]; undefined: none
  /// Attention: q, k, v; MLP: gate, up; or one fused matrix. Mixture of experts: the router, then
  /// gate and up (or both as one) of each expert, gate and up of the shared one, then its gate
  /// [1, d].
  std::vector<Linear> in_proj;
  std::vector<at::Tensor> head_norms;  ///< norms of query and key heads, [head_dim]; may be empty
  /// DeltaNet: its convolution [channels, 1, taps], dt_bias and A_log [value heads], and the weight
  /// of its norm [value_dim]. Else empty.
  std::vector<at::Tensor> delta_net;
  /// Attention: o; MLP: down; mixture: down of each expert and of the shared one.
  std::vector<Linear> out_proj;
  /// Mixture: added to the scores [experts], float32; may be undefined.
  at::Tensor choice_bias = {};
  at::Tensor sinks =
      {};  ///< attention: a score of each head without a key [heads]; may be undefined
  /// [k_in, k_out]; undefined: the identity plus the factors' product (job/model/model_config.h)
  at::Tensor shortcut;
  at::Tensor shortcut_A;  ///< [k_in, rank]
  at::Tensor shortcut_B;  ///< [rank, k_out]; undefined beside an A: -A'
};

struct EmbeddingWeights {
  at::Tensor weight;      ///< embed_tokens [vocab, width]
  at::Tensor projection;  ///< [k_0, width]; undefined: the identity
  double scale = 1.0;     ///< ModelConfig::embedding_scale
};

struct HeadWeights {
  at::Tensor norm = {};        ///< γ [k_2L]; undefined if folded into the tensors behind it
  at::Tensor weight = {};      ///< lm_head [vocab, width]; the embedding if tied
  at::Tensor projection = {};  ///< [width, k_2L], tied models only; undefined: the identity
};

/// Calls visit(role, index, tensor) for each slot of the weights, in the order of the tensor table.
/// The tensor is undefined if it is absent. Weights: SublayerWeights, const or not.
template <class Weights, class Visit>
void for_each_slot(Weights& weights, const Visit& visit) {
  const auto each = [&](TensorRole role, auto& items, const auto& tensor_of) {
    size_t index = 0;
    for (auto& item : items) visit(role, index++, std::invoke(tensor_of, item));
  };
  each(TensorRole::kInProjWeight, weights.in_proj, &Linear::weight);
  each(TensorRole::kOutProjWeight, weights.out_proj, &Linear::weight);
  each(TensorRole::kInProjBias, weights.in_proj, &Linear::bias);
  each(TensorRole::kOutProjBias, weights.out_proj, &Linear::bias);
  visit(TensorRole::kChoiceBias, 0, weights.choice_bias);
  each(TensorRole::kHeadNorm, weights.head_norms, std::identity());
  visit(TensorRole::kSinks, 0, weights.sinks);
  each(TensorRole::kDeltaNet, weights.delta_net, std::identity());
  visit(TensorRole::kNorm, 0, weights.norm);
  visit(TensorRole::kPostNorm, 0, weights.post_norm);
  visit(TensorRole::kShortcut, 0, weights.shortcut);
  visit(TensorRole::kShortcutA, 0, weights.shortcut_A);
  visit(TensorRole::kShortcutB, 0, weights.shortcut_B);
}

/// Calls visit(tensor) for each defined tensor.
template <class Weights, class Visit>
void for_each_tensor(Weights& weights, const Visit& visit) {
  for_each_slot(weights, [&](TensorRole, size_t, auto& tensor) {
    if (tensor.defined()) visit(tensor);
  });
}

/// Returns weights with these tensors. `make` returns each one in the stored shape and order.
SublayerWeights make_weights(int64_t sublayer, const std::vector<StoredTensor>& tensors,
                             const std::function<at::Tensor(const StoredTensor&)>& make);

/// Calls `visit` with each tensor in its stored layout; shortcuts are transposed views. Throws
/// std::logic_error if the weights have other tensors than `tensors`.
void for_each_stored(const SublayerWeights& weights, const std::vector<StoredTensor>& tensors,
                     const std::function<void(const StoredTensor&, const at::Tensor&)>& visit);

/// Returns the dtype of a tensor among weights of `dtype`. A choice of experts is decided by small
/// differences, so what is added to their scores stays float32.
at::ScalarType held_dtype(TensorRole role, at::ScalarType dtype);

/// Returns the weights rounded to `dtype`. Tensors that have it already are shared, not copied.
SublayerWeights to_dtype(const SublayerWeights& weights, at::ScalarType dtype);

/// Returns the tensors on `device`. Tensors already there are shared. Copies to a GPU go through
/// pinned memory on the current stream, and may be unfinished on return.
at::Tensor to_device(const at::Tensor& tensor, at::Device device);
SublayerWeights to_device(const SublayerWeights& weights, at::Device device);
HeadWeights to_device(const HeadWeights& weights, at::Device device);

/// Broadcasts a sublayer with these tensors from `root`. `owned` is read only at root, and must
/// have the dtype and device. Every rank gets contiguous tensors of that dtype on that device.
SublayerWeights broadcast_sublayer(Communicator& comm, const std::vector<StoredTensor>& tensors,
                                   const SublayerWeights& owned, int64_t sublayer,
                                   at::ScalarType dtype, at::Device device, int root);

}  // namespace dotresize
