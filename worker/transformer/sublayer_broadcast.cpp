#include "worker/transformer/sublayer_broadcast.h"

#include <ATen/ATen.h>

namespace dotresize {

SublayerWeights broadcast_sublayer(Communicator& comm, const ModelConfig& config,
                                   const SublayerWeights& owned, int64_t sublayer, int64_t k_in,
                                   int64_t k_out, at::ScalarType dtype, at::Device device,
                                   int root) {
  SublayerWeights weights = owned;
  if (comm.rank() != root) {
    weights = make_weights(sublayer,
                           sublayer_tensors(config, sublayer, SublayerForm::kFolded, k_in, k_out),
                           [&](const StoredTensor& tensor) {
                             return at::empty(tensor.shape, at::dtype(dtype).device(device));
                           });
  }
  for_each_tensor(weights, [&](at::Tensor& tensor) {
    tensor = tensor.contiguous();
    comm.broadcast(tensor, root);
  });
  return weights;
}

}  // namespace dotresize
