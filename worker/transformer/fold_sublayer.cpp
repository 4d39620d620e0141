#include "worker/transformer/fold_sublayer.h"

#include <ATen/ATen.h>

#include <cmath>

#include "worker/maps/describe/spectrum.h"
#include "worker/maps/fold.h"

namespace dotresize {

at::ScalarType fold_dtype(Dtype output) {
  return folds_in_float64(output) ? at::kDouble : at::kFloat;
}

SublayerWeights fold_input(const SublayerWeights& weights, const at::Tensor& M_inv) {
  SublayerWeights folded = to_dtype(weights, M_inv.scalar_type());
  for (Linear& linear : folded.in_proj) {
    linear.weight = fold_in_proj(linear.weight, folded.norm, M_inv);
  }
  folded.norm = at::Tensor();
  folded.shortcut = folded.shortcut.defined() ? at::matmul(M_inv, folded.shortcut) : M_inv;
  return folded;
}

SublayerWeights fold_output(const SublayerWeights& weights, const at::Tensor& M) {
  SublayerWeights folded = to_dtype(weights, M.scalar_type());
  for (Linear& linear : folded.out_proj) {
    linear.weight = fold_out_proj(linear.weight, M);
    if (linear.bias.defined()) linear.bias = fold_out_proj_bias(linear.bias, M);
  }
  folded.shortcut = folded.shortcut.defined() ? at::matmul(folded.shortcut, M) : M;
  return folded;
}

HeadWeights fold_head(const HeadWeights& head, const at::Tensor& M_inv) {
  HeadWeights folded;
  if (!M_inv.defined()) {
    folded.weight = head.norm.defined() ? head.weight * head.norm : head.weight;
    return folded;
  }
  // The head is as large as the embedding, so it is folded in blocks of rows too. γ goes into the
  // small factor.
  const at::Tensor columns =
      head.norm.defined() ? head_projection(head.norm, M_inv) : at::Tensor(M_inv.t());
  folded.weight = fold_embedding(head.weight, columns);
  return folded;
}

at::Tensor head_projection(const at::Tensor& gamma, const at::Tensor& M_inv) {
  return gamma.to(M_inv.options()).unsqueeze(1) * M_inv.t();
}

at::Tensor norm_rotation(const at::Tensor& gamma, const at::Tensor& M) {
  const at::Tensor wide = M.to(at::kDouble);
  const at::Tensor product = at::mm(wide.t(), gamma.to(at::kDouble).unsqueeze(1) * wide);
  return eigenbasis((product + product.t()) / 2).vectors.to(M.device());
}

at::Tensor tied_norm(const at::Tensor& gamma, const at::Tensor& M) {
  return (gamma.to(M.options()).unsqueeze(1) * M * M).sum(0);
}

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

}  // namespace dotresize
