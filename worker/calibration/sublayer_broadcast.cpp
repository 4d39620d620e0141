#include "worker/calibration/sublayer_broadcast.h"

#include <ATen/ATen.h>

namespace dotresize {
namespace {

at::Tensor empty(const StoredTensor& tensor, const at::TensorOptions& options) {
  return tensor.name.empty() ? at::Tensor() : at::empty(tensor.shape, options);
}

Linear empty(const LinearLayout& layout, const at::TensorOptions& options) {
  return {empty(layout.weight, options), empty(layout.bias, options)};
}

void broadcast_if_defined(Communicator& comm, at::Tensor& tensor, int root) {
  if (!tensor.defined()) return;
  tensor = tensor.contiguous();
  comm.broadcast(tensor, root);
}

}  // namespace

SublayerWeights broadcast_sublayer(Communicator& comm, const ModelConfig& config,
                                   const SublayerWeights& owned, int64_t sublayer, int64_t k_in,
                                   int64_t k_out, at::ScalarType dtype, at::Device device,
                                   int root) {
  SublayerWeights weights = owned;
  if (comm.rank() != root) {
    const SublayerLayout layout = sublayer_layout(config, sublayer, k_in, k_out);
    const at::TensorOptions options = at::dtype(dtype).device(device);
    weights.sublayer = sublayer;
    for (const LinearLayout& linear : layout.in_proj)
      weights.in_proj.push_back(empty(linear, options));
    for (const StoredTensor& norm : layout.head_norms)
      weights.head_norms.push_back(empty(norm, options));
    for (const LinearLayout& linear : layout.out_proj)
      weights.out_proj.push_back(empty(linear, options));
    weights.shortcut = at::empty({k_in, k_out}, options);
  }
  for (Linear& linear : weights.in_proj) {
    broadcast_if_defined(comm, linear.weight, root);
    broadcast_if_defined(comm, linear.bias, root);
  }
  for (at::Tensor& norm : weights.head_norms) broadcast_if_defined(comm, norm, root);
  for (Linear& linear : weights.out_proj) {
    broadcast_if_defined(comm, linear.weight, root);
    broadcast_if_defined(comm, linear.bias, root);
  }
  broadcast_if_defined(comm, weights.shortcut, root);
  return weights;
}

}  // namespace dotresize
