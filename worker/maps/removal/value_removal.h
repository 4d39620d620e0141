#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace dotresize {

// Removal of channels of an attention's value heads by optimal brain surgery (docs/method.md,
// "Narrower value heads"): the same number from each head. Matrices are float64, on one device. The
// input of W = o is a [query · head_dim], one query head after the other.

/// Numbers of heads. Query head h uses value head h / (query / value).
struct AttentionHeads {
  int64_t query = 0;
  int64_t value = 0;
};

/// Remaining part of an attention's values.
struct CutValues {
  /// T [value, head_dim, left]: multiplied to a head's values, v' = v T.
  at::Tensor turns;
  at::Tensor weight;                     ///< [d, query · left]: W for the remaining values
  double predicted_loss_increase = 0.0;  ///< predicted loss increase, as in Removal::loss_increases
};

/// Rotates each value head so that its channels are independent, both in the values and in W, and
/// then removes the cheapest channel of each head until `left` remain in each. A channel is removed
/// together with its columns in all of its query heads. The loss is compensated as in
/// removal_of_features. gram: E[aᵀa], symmetric; it is consumed. metric_factor: L with F = L·Lᵀ, or
/// undefined: F = I. Throws NonFiniteError if gram is not finite.
CutValues remove_values(at::Tensor gram, const at::Tensor& weight, const at::Tensor& metric_factor,
                        AttentionHeads heads, int64_t left);

/// Returns the predicted loss increase after the first 0, 1, … removed channels of each head,
/// [head_dim - left + 1]. `left` may be 0.
std::vector<double> value_removal_loss_increases(at::Tensor gram, const at::Tensor& weight,
                                                 const at::Tensor& metric_factor,
                                                 AttentionHeads heads, int64_t left);

}  // namespace dotresize
