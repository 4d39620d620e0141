#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "worker/transformer/weights.h"

namespace dotresize {

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
