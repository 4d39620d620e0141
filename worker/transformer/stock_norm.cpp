#include "worker/transformer/stock_norm.h"

#include <ATen/ATen.h>

#include <cmath>

namespace dotresize {

StockNorm stock_norm(int64_t d, int64_t k, at::ScalarType output_dtype) {
  const double exact = std::sqrt(static_cast<double>(d) / static_cast<double>(k));
  const at::Tensor weight = at::full({k}, exact, at::kDouble).to(output_dtype).to(at::kDouble);
  return {weight, exact / weight[0].item<double>(), exact};
}

SublayerWeights with_stock_norm(const SublayerWeights& folded, const StockNorm& norm) {
  SublayerWeights weights = folded;
  weights.norm = norm.weight;
  for (Linear& linear : weights.in_proj) linear.weight = linear.weight * norm.rest;
  for (size_t part = 0; part < weights.head_norms.size(); ++part) {
    Linear& linear = weights.in_proj.at(part);  // q, k
    linear.weight = linear.weight * norm.exact;
    if (linear.bias.defined()) linear.bias = linear.bias * norm.exact;
  }
  return weights;
}

HeadWeights with_stock_norm(const HeadWeights& folded, const StockNorm& norm) {
  return {norm.weight, folded.weight * norm.rest};
}

}  // namespace dotresize
