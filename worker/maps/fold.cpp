#include "worker/maps/fold.h"

#include <ATen/ATen.h>

#include <algorithm>

namespace dotresize {
namespace {

constexpr int64_t kBlockRows = 4096;

/// Returns left · right in the dtype of `right`. left: [n, d] of any floating dtype, right: [d, k].
/// Rows of `left` are converted a block at a time, because it may be a vocabulary table.
at::Tensor multiply_by_rows(const at::Tensor& left, const at::Tensor& right) {
  TORCH_CHECK(left.dim() == 2 && right.dim() == 2 && left.size(1) == right.size(0),
              "a matrix of shape ", left.sizes(), " cannot be folded with one of shape ",
              right.sizes());
  at::Tensor product = at::empty({left.size(0), right.size(1)}, right.options());
  for (int64_t first = 0; first < left.size(0); first += kBlockRows) {
    const int64_t rows = std::min(kBlockRows, left.size(0) - first);
    at::Tensor block = product.narrow(0, first, rows);
    at::mm_out(block, left.narrow(0, first, rows).to(right.options()), right);
  }
  return product;
}

}  // namespace

at::Tensor fold_in_proj(const at::Tensor& weight, const at::Tensor& gamma,
                        const at::Tensor& M_inv) {
  at::Tensor right = M_inv.t();
  if (gamma.defined()) {
    TORCH_CHECK(gamma.dim() == 1 && gamma.size(0) == right.size(0), "gamma has shape ",
                gamma.sizes(), ", M_inv has shape ", M_inv.sizes());
    right = gamma.to(right.options()).unsqueeze(1) * right;
  }
  return multiply_by_rows(weight, right);
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

at::Tensor fold_embedding(const at::Tensor& embedding, const at::Tensor& M) {
  return multiply_by_rows(embedding, M);
}

}  // namespace dotresize
