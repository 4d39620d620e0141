#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace dotresize {

// By how much a map is predicted to raise the loss of a token (docs/method.md, "All widths by
// loss"), from the sums of the dense model's junctions. Matrices are float64, on one device.
// `widths`: G of them, ascending, up to d.

/// A junction's decomposition in the metric of the loss: LᵀGL/n = V·diag(e)·Vᵀ.
struct MetricBasis {
  at::Tensor values;   ///< e [d], descending
  at::Tensor vectors;  ///< V [d, d]
  at::Tensor factor;   ///< L [d, d] of maps/metric.h
};

/// [G] of the first junction: what it leaves out at each width.
at::Tensor rises_of_first(const MetricBasis& junction, const std::vector<int64_t>& widths);

/// [G, G] of a junction behind another: row i is for the width i at the one before, column j for
/// the width j at this one. What the one before has left out is not there to be left out again.
at::Tensor rises_behind(const MetricBasis& before, const MetricBasis& junction,
                        const std::vector<int64_t>& widths);

/// [G] of a junction that shares its map with all others. basis: of the map; gram: E[xᵀx] of the
/// junction; before: of the junction before, or undefined; fisher: E[gᵀg] of the junction.
at::Tensor rises_of_shared(const MetricBasis& basis, const at::Tensor& gram,
                           const at::Tensor& before, const at::Tensor& fisher,
                           const std::vector<int64_t>& widths);

/// Of each of `first` the sum of all products from that row and column on: [first]. products: [n,
/// n]; first: 0 to n.
at::Tensor corner_sums(const at::Tensor& products, const std::vector<int64_t>& first);

/// What the map of one junction does to the loss of each token by itself: ½ (Σ_(b ≥ k) y_b h_b)², y
/// = x·L·V being the token and h = g·L⁻ᵀ·V its gradient. Its mean is what the functions above say
/// if activations and gradients were independent of each other, and more if tokens that are hard to
/// keep have large gradients.
class TokenRises {
 public:
  TokenRises(const MetricBasis& basis, std::vector<int64_t> widths);

  /// x, g: [..., d] float32, of the same tokens.
  void add(const at::Tensor& x, const at::Tensor& g);
  /// Over all tokens [G] float64.
  const at::Tensor& sums() const { return sums_; }

 private:
  std::vector<int64_t> widths_;
  at::Tensor of_x_;  ///< [d, d] float32
  at::Tensor of_g_;  ///< likewise
  at::Tensor sums_;
};

}  // namespace dotresize
