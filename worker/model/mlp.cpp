#include "worker/model/mlp.h"

namespace dotresize {

at::Tensor mlp_forward(const SublayerWeights& weights, const at::Tensor& x) {
  const Linear& gate = weights.readers[0];
  const Linear& up = weights.readers[1];
  at::Tensor hidden = at::linear(x, gate.weight, gate.bias);
  at::silu_(hidden).mul_(at::linear(x, up.weight, up.bias));
  return at::linear(hidden, weights.writer.weight, weights.writer.bias);
}

}  // namespace dotresize
