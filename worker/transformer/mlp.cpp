#include "worker/transformer/mlp.h"

#include <ATen/ATen.h>

#include "worker/transformer/read_parts.h"

namespace dotresize {

at::Tensor mlp_forward(const std::vector<Linear>& in_proj, const Linear& out_proj,
                       const at::Tensor& x) {
  const int64_t rows = out_proj.weight.size(1);
  const std::vector<at::Tensor> parts = read_parts(in_proj, x, {rows, rows});
  at::Tensor hidden = parts[0];
  at::silu_(hidden).mul_(parts[1]);
  return at::linear(hidden, out_proj.weight, out_proj.bias);
}

}  // namespace dotresize
