#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <vector>

namespace dotresize {

struct Linear {
  at::Tensor weight;  ///< [out, in]
  at::Tensor bias;    ///< [out], or undefined
};

/// Weights of one sublayer, dense, half folded or folded. All of one dtype.
struct SublayerWeights {
  int64_t sublayer = 0;  ///< 2l: attention of layer l; 2l+1: its MLP
  at::Tensor norm;       ///< γ [d]; undefined once folded into in_proj
  /// Attention: q, k, v; MLP: gate, up; or one, all fused. Mixture of experts: the router, then
  /// gate and up of each expert.
  std::vector<Linear> in_proj;
  std::vector<at::Tensor> head_norms;  ///< of query and key heads, [head_dim]; or empty
  std::vector<Linear> out_proj;        ///< attention: o; MLP: down; mixture: down of each expert
  at::Tensor shortcut;                 ///< [k_in, k_out]; undefined: the identity
};

struct HeadWeights {
  at::Tensor norm;    ///< γ [d]; undefined where the model is compressed
  at::Tensor weight;  ///< lm_head [vocab, k_2L]; the embedding where tied
};

/// Calls the function with every tensor that there is.
void for_each_tensor(const SublayerWeights& weights,
                     const std::function<void(const at::Tensor&)>& function);

/// The weights rounded to `dtype`; tensors that have it already are shared, not copied.
SublayerWeights to_dtype(const SublayerWeights& weights, at::ScalarType dtype);

/// The tensors on `device`; those that are there already are shared. To a GPU they go through
/// pinned memory, and may still be on their way when this returns: whatever runs on its current
/// stream finds them there.
at::Tensor to_device(const at::Tensor& tensor, at::Device device);
SublayerWeights to_device(const SublayerWeights& weights, at::Device device);
HeadWeights to_device(const HeadWeights& weights, at::Device device);

}  // namespace dotresize
