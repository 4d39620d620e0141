#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace dotresize {

// Channels of an attention's value heads are removed by optimal brain surgery (docs/method.md,
// "Narrower value heads"), as many of each head. Matrices are float64, on one device. What feeds
// W = o is a [query · head_dim], query head after query head.

/// Query head h has the values of value head h / (query / value).
struct AttentionHeads {
  int64_t query = 0;
  int64_t value = 0;
};

/// What is left of an attention's values.
struct CutValues {
  /// [value, head_dim, left]: a head's values are multiplied with it, v' = v T.
  at::Tensor turns;
  at::Tensor weight;            ///< [d, query · left]: W, which reads the values that are left
  double predicted_rise = 0.0;  ///< as CutFeatures::predicted_rise
};

/// Turns each value head so that its channels are independent of each other, both as they are seen
/// and as they are read, and then removes the cheapest channel of each head until `left` of them
/// are left in each. A channel goes with what its query heads make of it, and the loss is written
/// back as in remove_features. gram: E[aᵀa], symmetric; it is given away. metric_factor: L with
/// F = L·Lᵀ, or undefined: F = I. Throws NonFiniteError if gram is not finite.
CutValues remove_values(at::Tensor gram, const at::Tensor& weight, const at::Tensor& metric_factor,
                        AttentionHeads heads, int64_t left);

/// What the same removal costs on its way: of the first 0, 1, … channels that go from each head, to
/// the last one [head_dim - left + 1]. left may be 0.
std::vector<double> value_removal_rises(at::Tensor gram, const at::Tensor& weight,
                                        const at::Tensor& metric_factor, AttentionHeads heads,
                                        int64_t left);

}  // namespace dotresize
