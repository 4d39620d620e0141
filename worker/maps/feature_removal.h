#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace dotresize {

// Features of an MLP are removed by optimal brain surgery (Hassibi & Stork 1993; docs/method.md,
// "Narrower MLPs"). Matrices are float64, on one device.

/// (gram + 0.01·mean(diag gram)·I)⁻¹, or I if gram is zero: H⁻¹ of a removal. gram is given away.
/// Throws NonFiniteError if it is not finite.
at::Tensor ridged_inverse(at::Tensor gram);

/// What is left of an MLP whose features h feed W = down.
struct CutFeatures {
  at::Tensor kept;    ///< [left] int64 on the CPU, ascending: the features that are left
  at::Tensor weight;  ///< [d, left]: W, of which the columns that are left make up for the others
};

/// The order in which features go.
struct Removal {
  at::Tensor order;  ///< [f - left] int64 on the CPU
  /// ½ Σ s over the first 0, 1, … of them [f - left + 1]: in the metric of the loss by so much the
  /// loss of a token is predicted to rise, else half the squared error of what W writes.
  std::vector<double> rises;
};

/// Removes features one after another until `left` of them are left, each time the one of least
/// cost s_j = (w_jᵀ F w_j) / [H⁻¹]_jj, and writes the loss back: W ← W − w_j [H⁻¹]_j / [H⁻¹]_jj,
/// likewise H⁻¹. H = gram + 0.01·mean(diag gram)·I, or I if gram is zero. Where it stops changes
/// nothing of what comes before.
/// gram: E[hᵀh] [f, f], symmetric; it is given away. weight: W [d, f]. metric_factor: L [d, d] with
/// F = L·Lᵀ (maps/metric.h), or undefined: F = I. Throws NonFiniteError if gram is not finite.
Removal removal_of_features(at::Tensor gram, const at::Tensor& weight,
                            const at::Tensor& metric_factor, int64_t left);

/// What the first f - `left` steps of a removal leave, of the gram and W that it was made of. The
/// metric bears on the order alone: of the features that are left W is the least-squares fit of
/// what the whole wrote, W H_K H_KK⁻¹. gram is given away.
CutFeatures features_left(const at::Tensor& order, at::Tensor gram, const at::Tensor& weight,
                          int64_t left);

}  // namespace dotresize
