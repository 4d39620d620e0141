#include "worker/maps/fold.h"

#include <ATen/ATen.h>

#include <algorithm>

namespace dotresize {
namespace {

constexpr int64_t kBlockRows = 4096;

}  // namespace

at::Tensor fold_in_proj(const at::Tensor& weight, const at::Tensor& gamma,
                        const at::Tensor& M_inv) {
  at::Tensor right = M_inv.t();
  if (gamma.defined()) {
    TORCH_CHECK(gamma.dim() == 1 && gamma.size(0) == right.size(0), "gamma has shape ",
                gamma.sizes(), ", M_inv has shape ", M_inv.sizes());
    right = gamma.to(right.options()).unsqueeze(1) * right;
  }
  return fold_embedding(weight, right);  // the same product
}

at::Tensor fold_out_proj(const at::Tensor& weight, const at::Tensor& M) {
  TORCH_CHECK(weight.dim() == 2 && M.dim() == 2 && weight.size(0) == M.size(0),
              "a weight of shape ", weight.sizes(), " is not multiplied by a map of shape ",
              M.sizes());
  return at::mm(M.t(), weight.to(M.options()));
}

at::Tensor fold_out_proj_bias(const at::Tensor& bias, const at::Tensor& M) {
  TORCH_CHECK(bias.dim() == 1 && M.dim() == 2 && bias.size(0) == M.size(0), "a bias of shape ",
              bias.sizes(), " is not multiplied by a map of shape ", M.sizes());
  return at::mv(M.t(), bias.to(M.options()));
}

// Rows are converted a block at a time, because the embedding is a table of the vocabulary.
at::Tensor fold_embedding(const at::Tensor& embedding, const at::Tensor& M) {
  TORCH_CHECK(embedding.dim() == 2 && M.dim() == 2 && embedding.size(1) == M.size(0),
              "a matrix of shape ", embedding.sizes(), " cannot be folded with one of shape ",
              M.sizes());
  at::Tensor product = at::empty({embedding.size(0), M.size(1)}, M.options());
  for (int64_t first = 0; first < embedding.size(0); first += kBlockRows) {
    const int64_t rows = std::min(kBlockRows, embedding.size(0) - first);
    at::Tensor block = product.narrow(0, first, rows);
    at::mm_out(block, embedding.narrow(0, first, rows).to(M.options()), M);
  }
  return product;
}

}  // namespace dotresize
