#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "job/model/dtype.h"
#include "worker/transformer/weights.h"

namespace dotresize {

// Folding of a junction's maps into the sublayers around it (method.md, "Folding"). Results have
// the map's dtype throughout (worker/maps/fold.h): the caller rounds once, with to_dtype.

/// Of the maps and weights whose folds are written as `output`.
at::ScalarType fold_dtype(Dtype output);

/// Folds M_inv [k_in, d] of the junction that the sublayer reads: γ and M_inv go into
/// in_proj, the shortcut becomes M_inv. The result maps width k_in to the full width.
SublayerWeights fold_input(const SublayerWeights& weights, const at::Tensor& M_inv);

/// Folds the map M [d, k_out] of the junction that the sublayer writes: out_proj and shortcut are
/// multiplied by M. In either order with fold_input.
SublayerWeights fold_output(const SublayerWeights& weights, const at::Tensor& M);

/// What the shortcut between two maps that are rotated into each other has beside the identity
/// (job/model/shortcut_form.h): -A·A', or of oblique maps A·B. Both undefined: nothing.
struct ShortcutFactors {
  at::Tensor A;  ///< [k_in, rank]
  at::Tensor B;  ///< [rank, k_out]
};

/// The skip path of a sublayer, folded on both sides by such maps.
void set_shortcut_factors(SublayerWeights& weights, const ShortcutFactors& factors);

/// lm_head' = W · diag(γ) · M_invᵀ; norm becomes undefined. M_inv undefined: the identity, and
/// the result has the head's dtype.
HeadWeights fold_head(const HeadWeights& head, const at::Tensor& M_inv);

/// Of a head that is tied to the source's table: γ and M_inv between the last junction and the
/// table, diag(γ) · M_invᵀ [d, k]. γ: [d].
at::Tensor head_projection(const at::Tensor& gamma, const at::Tensor& M_inv);

/// The rotation R [k, k] of a map M [d, k] with orthonormal columns that makes
/// Rᵀ·Mᵀ·diag(γ)·M·R diagonal, entries descending: with M·R in place of M a stock norm's weight can
/// be what lies between the last junction and a tied head. float64.
at::Tensor norm_rotation(const at::Tensor& gamma, const at::Tensor& M);
/// That diagonal [k], of M·R.
at::Tensor tied_norm(const at::Tensor& gamma, const at::Tensor& M);

/// What makes a stock RMSNorm over k channels divide by the source's width d (method.md,
/// "Folding"): the weight sqrt(d/k), besides an eps of eps·d/k.
struct StockNorm {
  at::Tensor weight;  ///< [k] float64, all sqrt(d/k) as the output's dtype rounds it
  double rest = 1.0;  ///< sqrt(d/k) over the rounded weight: what the matrices that read it make up
  double exact = 1.0;  ///< sqrt(d/k)
};

StockNorm stock_norm(int64_t d, int64_t k, at::ScalarType output_dtype);

/// The folded weights with such a norm before in_proj. Norms of the heads get its eps too,
/// for a stock model has only one: queries and keys are sqrt(d/k) times as large before they are
/// normed, which makes the norm the same as with the source's eps. in_proj must not be fused then.
SublayerWeights with_stock_norm(const SublayerWeights& folded, const StockNorm& norm);
HeadWeights with_stock_norm(const HeadWeights& folded, const StockNorm& norm);

}  // namespace dotresize
