#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace dotresize {

// Removal of MLP features by optimal brain surgery (Hassibi & Stork 1993; docs/method.md, "Narrower
// MLPs"). Matrices are float64, on one device.

/// Returns H⁻¹ of a removal: (gram + 0.01·mean(diag gram)·I)⁻¹, or I if gram is zero. Consumes
/// gram. Throws NonFiniteError if gram is not finite.
at::Tensor ridged_inverse(at::Tensor gram);

/// Remaining part of an MLP whose features h feed W = down.
struct CutFeatures {
  at::Tensor kept;    ///< [left] int64 on the CPU, ascending: remaining features
  at::Tensor weight;  ///< [d, left]: the remaining columns of W, corrected for the removed ones
};

/// Order in which features are removed.
struct Removal {
  at::Tensor order;  ///< [f - left] int64 on the CPU
  /// ½ Σ s over the first 0, 1, … of them, [f - left + 1]. In the metric of the loss this is the
  /// predicted loss increase of a token; else half the squared error of the output of W.
  std::vector<double> loss_increases;
};

/// Removes features one by one until `left` remain. Each step removes the feature of least cost s_j
/// = (w_jᵀ F w_j) / [H⁻¹]_jj and compensates: W ← W − w_j [H⁻¹]_j / [H⁻¹]_jj, likewise H⁻¹. Here H
/// is gram + 0.01·mean(diag gram)·I, or I if gram is zero. `left` does not change the order of the
/// steps.
/// gram: E[hᵀh] [f, f], symmetric; it is consumed. weight: W [d, f]. metric_factor: L [d, d] with F
/// = L·Lᵀ (maps/metric.h), or undefined: F = I. Throws NonFiniteError if gram is not finite.
Removal removal_of_features(at::Tensor gram, const at::Tensor& weight,
                            const at::Tensor& metric_factor, int64_t left);

/// Returns the MLP after the first f - `left` steps of a removal, from the gram and W of that
/// removal. The metric affects only the order. W of the remaining features K is the least-squares
/// fit to the output of the whole MLP, W H_K H_KK⁻¹. Consumes gram.
CutFeatures features_left(const at::Tensor& order, at::Tensor gram, const at::Tensor& weight,
                          int64_t left);

}  // namespace dotresize
