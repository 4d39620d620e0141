#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "worker/maps/junction_map.h"

namespace dotresize {

// Predicted loss increase of a token by a map (docs/method.md, "All widths by loss"), from the sums
// of the dense model's junctions. Matrices are float64, on one device. `widths`: G widths,
// ascending, up to d.

/// Decomposition of a junction in the metric of the loss: LᵀGL/n = V·diag(e)·Vᵀ.
struct MetricBasis {
  at::Tensor values;   ///< e [d], descending
  at::Tensor vectors;  ///< V [d, d]
  at::Tensor factor;   ///< L [d, d] of maps/metric.h
};

/// Returns the prediction [G] for the first junction: the part that it leaves out at each width.
at::Tensor loss_increases_of_first(const MetricBasis& junction, const std::vector<int64_t>& widths);

/// Returns the prediction [G, G] for a junction behind another: row i for the width i at the one
/// before, column j for the width j at this one. A part that the junction before has removed is not
/// removed again.
at::Tensor loss_increases_behind(const MetricBasis& before, const MetricBasis& junction,
                                 const std::vector<int64_t>& widths);

/// Returns the prediction [G] for a junction that shares its map with all others. basis: basis of
/// the map; gram: E[xᵀx] of the junction; before: E[xᵀx] of the junction before, or undefined;
/// fisher: E[gᵀg] of the junction.
at::Tensor loss_increases_of_shared(const MetricBasis& basis, const at::Tensor& gram,
                                    const at::Tensor& before, const at::Tensor& fisher,
                                    const std::vector<int64_t>& widths);

/// Returns the map of width k of the decomposition.
JunctionMap map_of(const MetricBasis& junction, int64_t k);

/// Returns the predicted loss increase of a token if the shortcut between two junctions is cut to
/// each of `ranks`, [ranks] float64 (docs/method.md, "All widths by loss"). `in` and `out`, of
/// widths k_in and k_out, are maps of the dense model's decompositions in the metric of the loss.
/// If k_out < k_in, a shortcut keeps k_in - k_out more than its rank, as in shortcut_form().
/// `junction` needs only its factor.
at::Tensor loss_increases_of_ranks(const MetricBasis& before, const JunctionMap& in,
                                   const MetricBasis& junction, const JunctionMap& out,
                                   const std::vector<int64_t>& ranks,
                                   SvdDriver driver = SvdDriver::kGesvd);

/// Predicted loss increase of each token by the map of one junction, from its own activation and
/// gradient: ½ (Σ_(b ≥ k) y_b h_b)², where y = x·L·V is the token and h = g·L⁻ᵀ·V its gradient. If
/// activations and gradients were independent, the mean would equal the predictions above. It is
/// larger if tokens that are hard to keep have large gradients.
struct TokenLossIncreases {
  TokenLossIncreases(const MetricBasis& basis, std::vector<int64_t> widths);

  /// x, g: [..., d] float32; g is the gradient at the tokens x.
  void add(const at::Tensor& x, const at::Tensor& g);

  std::vector<int64_t> widths;
  at::Tensor to_y;  ///< L·V [d, d] float32
  at::Tensor to_h;  ///< L⁻ᵀ·V [d, d] float32
  at::Tensor sums;  ///< sums over all tokens, [G] float64
};

}  // namespace dotresize
