#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "job/model/dtype.h"
#include "worker/transformer/weights.h"

namespace dotresize {

// Folding of a junction's maps into the sublayers around it (method.md, "Folding"). Results have
// the map's dtype (worker/maps/fold.h). The caller rounds once, with to_dtype.

/// Returns the dtype of maps and weights in folding, for an output dtype.
at::ScalarType fold_dtype(Dtype output);

/// Folds M_inv [k_in, d] of the junction that the sublayer reads. γ and M_inv go into in_proj; the
/// shortcut becomes M_inv. The result takes width k_in to the full width.
SublayerWeights fold_input(const SublayerWeights& weights, const at::Tensor& M_inv);

/// Folds the map M [d, k_out] of the junction that the sublayer writes: multiplies out_proj and
/// shortcut by M. May run before or after fold_input.
SublayerWeights fold_output(const SublayerWeights& weights, const at::Tensor& M);

/// Factors of the shortcut between two maps that are rotated into each other
/// (job/model/model_config.h). The shortcut is the identity - A·A', or with oblique maps the
/// identity + A·B. Both undefined: the identity.
struct ShortcutFactors {
  at::Tensor A;  ///< [k_in, rank]
  at::Tensor B;  ///< [rank, k_out]
};

/// Returns lm_head' = W · diag(γ) · M_invᵀ, with undefined norm. M_inv undefined: the identity; the
/// result has the head's dtype.
HeadWeights fold_head(const HeadWeights& head, const at::Tensor& M_inv);

/// Returns the projection diag(γ) · M_invᵀ [d, k] between the last junction and the source's table,
/// for a head that is tied to it. γ: [d].
at::Tensor head_projection(const at::Tensor& gamma, const at::Tensor& M_inv);

/// Returns the rotation R [k, k] of a map M [d, k] with orthonormal columns such that
/// Rᵀ·Mᵀ·diag(γ)·M·R is diagonal, in descending order. With M·R in place of M, the weight of a
/// stock norm is enough between the last junction and a tied head. float64.
at::Tensor norm_rotation(const at::Tensor& gamma, const at::Tensor& M);
/// Returns the diagonal [k] of Mᵀ·diag(γ)·M, for a rotated M.
at::Tensor tied_norm(const at::Tensor& gamma, const at::Tensor& M);

/// Norm weight that makes a stock RMSNorm over k channels divide by the source's width d
/// (method.md, "Folding"): sqrt(d/k). The norm also needs an eps of eps·d/k.
struct StockNorm {
  at::Tensor weight;  ///< [k] float64, all sqrt(d/k) rounded to the output's dtype
  double rest = 1.0;  ///< sqrt(d/k) over the rounded weight: a factor for the matrices that read it
  double exact = 1.0;  ///< sqrt(d/k)
};

StockNorm stock_norm(int64_t d, int64_t k, at::ScalarType output_dtype);

/// Returns the folded weights with such a norm before in_proj. A stock model has only one eps, so
/// the norms of the heads get eps·d/k too. Queries and keys are multiplied by sqrt(d/k) before
/// their norms, which gives the same result as the source's eps. in_proj must not be fused then.
SublayerWeights with_stock_norm(const SublayerWeights& folded, const StockNorm& norm);

}  // namespace dotresize
