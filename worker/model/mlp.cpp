#include "worker/model/mlp.h"

#include "worker/model/read_parts.h"

namespace dotresize {

at::Tensor mlp_forward(const SublayerWeights& weights, const at::Tensor& x) {
  const int64_t rows = weights.writer.weight.size(1);
  const std::vector<at::Tensor> parts = read_parts(weights.readers, x, {rows, rows});
  at::Tensor hidden = parts[0];
  at::silu_(hidden).mul_(parts[1]);
  return at::linear(hidden, weights.writer.weight, weights.writer.bias);
}

}  // namespace dotresize
