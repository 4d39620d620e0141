#pragma once

#include <ATen/core/Tensor.h>

namespace dotresize {

// Folding of maps into weights (docs/method.md, "Folding"). Weights have any floating dtype.
// Results have the map's dtype and device; the caller rounds once. Use a float64 map for float32
// output. For 16-bit output float32 is enough: its products over d channels err by less than 2^-18
// of an output row's root mean square (d <= 8192, tests/maps/fold_test.cpp), while bfloat16 rounds
// to 2^-9 and float16 to 2^-12 of the entry. A linear weight is [out, in], as in Hugging Face
// models.

/// W · diag(gamma) · M_invᵀ. weight: [out, d], gamma: [d] or undefined (ones), M_inv: [k, d].
/// Returns [out, k].
at::Tensor fold_in_proj(const at::Tensor& weight, const at::Tensor& gamma, const at::Tensor& M_inv);

/// Mᵀ · W. weight: [d, in], M: [d, k]. Returns [k, in].
at::Tensor fold_out_proj(const at::Tensor& weight, const at::Tensor& M);

/// b · M. bias: [d], M: [d, k]. Returns [k].
at::Tensor fold_out_proj_bias(const at::Tensor& bias, const at::Tensor& M);

/// E · M. embedding: [vocab, d], M: [d, k]. Returns [vocab, k]. Works in blocks of rows, so the
/// extra memory is that of a block.
at::Tensor fold_embedding(const at::Tensor& embedding, const at::Tensor& M);

}  // namespace dotresize
