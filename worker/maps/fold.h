#pragma once

#include <ATen/core/Tensor.h>

namespace dotresize {

// Folding of maps into weights (method.md, "Folding"). Inputs of any floating dtype, computed and
// returned in float64: the caller rounds once. Weights may be on another device than the map, on
// whose device the result is. Hugging Face layout: a linear weight is [out, in].

/// W · diag(gamma) · M_invᵀ. weight: [out, d], gamma: [d] or undefined (ones), M_inv: [k, d].
/// Returns [out, k].
at::Tensor fold_reader(const at::Tensor& weight, const at::Tensor& gamma, const at::Tensor& M_inv);

/// Mᵀ · W. weight: [d, in], M: [d, k]. Returns [k, in].
at::Tensor fold_writer(const at::Tensor& weight, const at::Tensor& M);

/// b · M. bias: [d], M: [d, k]. Returns [k].
at::Tensor fold_writer_bias(const at::Tensor& bias, const at::Tensor& M);

/// E · M. embedding: [vocab, d], M: [d, k]. Returns [vocab, k]. Works in blocks of rows: peak extra
/// memory is a block's, not the table's.
at::Tensor fold_embedding(const at::Tensor& embedding, const at::Tensor& M);

}  // namespace dotresize
