#include "worker/transformer/projections.h"

#include <ATen/ATen.h>

#include "worker/transformer/half_product.h"

namespace dotresize {

at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& gamma, int64_t divisor, double eps) {
  at::Tensor scale = at::linalg_vector_norm(x, 2, at::IntArrayRef{-1}, /*keepdim=*/true).square();
  scale = scale.div_(divisor).add_(eps).rsqrt();
  at::Tensor normed = x * scale;
  if (gamma.defined()) normed.mul_(gamma);
  return normed;
}

std::vector<at::Tensor> apply_in_proj(const std::vector<Linear>& in_proj, const at::Tensor& x,
                                      at::IntArrayRef widths) {
  if (in_proj.size() == 1) {
    return apply_linear(in_proj[0], x).split_with_sizes(widths, /*dim=*/-1);
  }
  std::vector<at::Tensor> parts;
  parts.reserve(in_proj.size());
  for (const Linear& linear : in_proj) parts.push_back(apply_linear(linear, x));
  return parts;
}

at::Tensor project(const at::Tensor& x, const at::Tensor& projection) {
  return projection.defined() ? at::linear(x, projection.to(at::kFloat)) : x;
}

}  // namespace dotresize
