#include "worker/transformer/mlp.h"

#include <ATen/ATen.h>

#include "worker/transformer/read_parts.h"

namespace dotresize {

at::Tensor mlp_forward(const std::vector<Linear>& readers, const Linear& writer,
                       const at::Tensor& x) {
  const int64_t rows = writer.weight.size(1);
  const std::vector<at::Tensor> parts = read_parts(readers, x, {rows, rows});
  at::Tensor hidden = parts[0];
  at::silu_(hidden).mul_(parts[1]);
  return at::linear(hidden, writer.weight, writer.bias);
}

}  // namespace dotresize
