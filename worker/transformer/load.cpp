#include "worker/transformer/load.h"

#include <ATen/ATen.h>

#include <string>

#include "base/errors.h"
#include "worker/checkpoint/elements.h"

namespace dotresize {
namespace {

at::Tensor load_tensor(const CheckpointReader& reader, const StoredTensor& wanted,
                       at::ScalarType dtype) {
  const at::Tensor stored = reader.get(wanted.name, wanted.shape);
  at::Tensor loaded = stored.to(dtype, /*non_blocking=*/false, /*copy=*/true);
  if (all_finite(loaded)) return loaded;
  if (!all_finite(stored)) throw InputError("tensor '" + wanted.name + "' holds NaN or infinity");
  throw InputError("tensor '" + wanted.name + "' holds a value beyond the range of " +
                   std::string(c10::toString(dtype)) + "; compute in float32 or bfloat16");
}

}  // namespace

SublayerWeights load_sublayer(const CheckpointReader& reader, const ModelConfig& config,
                              int64_t sublayer, at::ScalarType dtype) {
  return make_weights(
      sublayer, sublayer_tensors(config, sublayer),
      [&](const StoredTensor& tensor) { return load_tensor(reader, tensor, dtype); });
}

void read_sublayer_ahead(const CheckpointReader& reader, const ModelConfig& config,
                         int64_t sublayer) {
  // The reader asks for the pages of each tensor that it hands out.
  for (const StoredTensor& tensor : sublayer_tensors(config, sublayer)) {
    reader.get(tensor.name, tensor.shape);
  }
}

at::Tensor load_embedding(const CheckpointReader& reader, const ModelConfig& config,
                          at::ScalarType dtype) {
  return load_tensor(reader, embedding_tensor(config), dtype);
}

HeadWeights load_head(const CheckpointReader& reader, const ModelConfig& config,
                      at::ScalarType dtype) {
  HeadWeights head;
  for (const StoredTensor& tensor : head_tensors(config)) {
    if (tensor.role == TensorRole::kFinalNorm) {
      head.norm = load_tensor(reader, tensor, dtype);
    } else {
      head.weight = config.tie_word_embeddings ? load_embedding(reader, config, dtype)
                                               : load_tensor(reader, tensor, dtype);
    }
  }
  return head;
}

}  // namespace dotresize
