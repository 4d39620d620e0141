#include "worker/transformer/read_parts.h"

#include <ATen/ATen.h>

namespace dotresize {

std::vector<at::Tensor> read_parts(const std::vector<Linear>& in_proj, const at::Tensor& x,
                                   at::IntArrayRef widths) {
  if (in_proj.size() == 1) {
    return at::linear(x, in_proj[0].weight, in_proj[0].bias).split_with_sizes(widths, /*dim=*/-1);
  }
  std::vector<at::Tensor> parts;
  for (const Linear& linear : in_proj) {
    parts.push_back(at::linear(x, linear.weight, linear.bias));
  }
  return parts;
}

}  // namespace dotresize
