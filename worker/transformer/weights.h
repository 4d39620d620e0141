#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "job/model/model_config.h"
#include "job/model/tensor_table.h"
#include "worker/comm/communicator.h"

namespace dotresize {

/// Added to a weight: B·A, float32. Both are undefined if nothing is.
struct LowRankUpdate {
  at::Tensor A;  ///< [rank, in]
  at::Tensor B;  ///< [out, rank]
};

struct Linear {
  at::Tensor weight;          ///< [out, in]
  at::Tensor bias;            ///< [out], or undefined
  LowRankUpdate update = {};  ///< no tensor of the checkpoint; of a router it is not applied
};

/// Weights of one sublayer, dense, half folded or folded. All of one dtype.
struct SublayerWeights {
  int64_t sublayer = 0;
  at::Tensor norm;  ///< γ [d]; undefined once folded into in_proj
  /// Attention: q, k, v; MLP: gate, up; or one, all fused. Mixture of experts: the router, then
  /// gate and up of each expert.
  std::vector<Linear> in_proj;
  std::vector<at::Tensor> head_norms;  ///< of query and key heads, [head_dim]; or empty
  std::vector<Linear> out_proj;        ///< attention: o; MLP: down; mixture: down of each expert
  /// [k_in, k_out]; undefined: the identity, plus what the factors say (job/model/shortcut_form.h)
  at::Tensor shortcut;
  at::Tensor shortcut_A;  ///< [k_in, rank]
  at::Tensor shortcut_B;  ///< [rank, k_out]; undefined, with an A: -A'
};

struct EmbeddingWeights {
  at::Tensor weight;      ///< embed_tokens [vocab, width]
  at::Tensor projection;  ///< [k_0, width]; undefined: the identity
};

struct HeadWeights {
  at::Tensor norm = {};        ///< γ [k_2L]; undefined if it is folded into what follows
  at::Tensor weight = {};      ///< lm_head [vocab, width]; the embedding if tied
  at::Tensor projection = {};  ///< [width, k_2L], of tied models; undefined: the identity
};

/// Calls visit(role, index, tensor) for each tensor that the weights have room for, undefined if it
/// is absent, in the order of the tensor table. Weights: SublayerWeights, const or not.
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
  each(TensorRole::kHeadNorm, weights.head_norms, std::identity());
  visit(TensorRole::kNorm, 0, weights.norm);
  visit(TensorRole::kShortcut, 0, weights.shortcut);
  visit(TensorRole::kShortcutA, 0, weights.shortcut_A);
  visit(TensorRole::kShortcutB, 0, weights.shortcut_B);
}

/// Calls visit(tensor) for each tensor that is defined.
template <class Weights, class Visit>
void for_each_tensor(Weights& weights, const Visit& visit) {
  for_each_slot(weights, [&](TensorRole, size_t, auto& tensor) {
    if (tensor.defined()) visit(tensor);
  });
}

/// Weights of these tensors, each the result of `make`, in the stored shape and order.
SublayerWeights make_weights(int64_t sublayer, const std::vector<StoredTensor>& tensors,
                             const std::function<at::Tensor(const StoredTensor&)>& make);

/// Calls `visit` with each tensor as it is stored; shortcuts are transposed views. Throws
/// std::logic_error if the weights' tensors are not these.
void for_each_stored(const SublayerWeights& weights, const std::vector<StoredTensor>& tensors,
                     const std::function<void(const StoredTensor&, const at::Tensor&)>& visit);

/// The weights rounded to `dtype`; tensors that have it already are shared, not copied.
SublayerWeights to_dtype(const SublayerWeights& weights, at::ScalarType dtype);

/// The tensors on `device`; those that are there already are shared. To a GPU they go through
/// pinned memory, and the copy may not be done yet when this returns: it is on the current stream.
at::Tensor to_device(const at::Tensor& tensor, at::Device device);
SublayerWeights to_device(const SublayerWeights& weights, at::Device device);
HeadWeights to_device(const HeadWeights& weights, at::Device device);

/// Sends a sublayer of these tensors from `root` to all ranks. `owned` is only read at root; it has
/// the dtype and the device. Every rank gets contiguous tensors of that dtype on that device.
SublayerWeights broadcast_sublayer(Communicator& comm, const std::vector<StoredTensor>& tensors,
                                   const SublayerWeights& owned, int64_t sublayer,
                                   at::ScalarType dtype, at::Device device, int root);

}  // namespace dotresize
