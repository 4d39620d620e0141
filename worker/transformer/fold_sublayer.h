#pragma once

#include <ATen/core/Tensor.h>

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

/// lm_head' = W · diag(γ) · M_invᵀ; norm becomes undefined. M_inv undefined: the identity, and
/// the result has the head's dtype.
HeadWeights fold_head(const HeadWeights& head, const at::Tensor& M_inv);

}  // namespace dotresize
