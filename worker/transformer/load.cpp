#include "worker/transformer/load.h"

#include <ATen/ATen.h>

#include <optional>
#include <string>

#include "base/errors.h"
#include "worker/checkpoint/elements.h"
#include "worker/transformer/linear.h"

namespace dotresize {
namespace {

[[noreturn]] void refuse_value(const CheckpointReader& reader, const std::string& name,
                               const at::Tensor& stored, at::ScalarType dtype) {
  if (!all_finite(stored)) throw InputError(reader.in_file(name) + " holds NaN or infinity");
  throw InputError(reader.in_file(name) + " holds a value beyond the range of " +
                   std::string(c10::toString(dtype)) + "; compute in float32 or bfloat16");
}

/// Copies `stored`, rows of the tensor `name`, in `dtype`.
at::Tensor copied(const CheckpointReader& reader, const std::string& name, const at::Tensor& stored,
                  at::ScalarType dtype) {
  at::Tensor loaded = at::empty(stored.sizes(), dtype);
  for_each_block(stored, [&](const at::Tensor& block, int64_t begin) {
    at::Tensor copy = loaded.view({-1}).narrow(0, begin, block.numel()).view(block.sizes());
    copy.copy_(block);
    if (!all_finite(copy)) refuse_value(reader, name, block, dtype);
    reader.release(name, block);  // so that the tensor is not held twice
  });
  reader.release(name, stored);  // a transposed one, which blocks do not cover
  return loaded;
}

at::Tensor load_tensor(const CheckpointReader& reader, const StoredTensor& wanted,
                       at::ScalarType dtype) {
  reader.read_ahead(wanted.name, wanted.shape);
  return copied(reader, wanted.name, reader.get(wanted.name, wanted.shape), dtype);
}

/// Loads the tensor; undefined if the model does not have it.
at::Tensor load_end(const CheckpointReader& reader, const ModelConfig& config, TensorRole role,
                    at::ScalarType dtype) {
  const std::optional<StoredTensor> tensor = end_tensor(config, role);
  return tensor ? load_tensor(reader, *tensor, dtype) : at::Tensor();
}

}  // namespace

SublayerWeights load_sublayer(const CheckpointReader& reader, const ModelConfig& config,
                              int64_t sublayer, at::ScalarType dtype) {
  return make_weights(sublayer, sublayer_tensors(config, sublayer),
                      [&](const StoredTensor& tensor) {
                        return load_tensor(reader, tensor, held_dtype(tensor.role, dtype));
                      });
}

EmbeddingWeights load_embedding(const CheckpointReader& reader, const ModelConfig& config,
                                at::ScalarType dtype) {
  return {load_tensor(reader, embedding_tensor(config), dtype),
          load_end(reader, config, TensorRole::kEmbeddingProjection, dtype),
          config.embedding_scale};
}

HeadWeights load_before_head(const CheckpointReader& reader, const ModelConfig& config,
                             at::ScalarType dtype) {
  return {.norm = load_end(reader, config, TensorRole::kFinalNorm, dtype),
          .projection = load_end(reader, config, TensorRole::kHeadProjection, dtype)};
}

HeadWeights load_head(const CheckpointReader& reader, const ModelConfig& config,
                      at::ScalarType dtype) {
  HeadWeights head = load_before_head(reader, config, dtype);
  head.weight = load_tensor(reader, head_matrix(config), dtype);
  return head;
}

at::Tensor load_rows(const CheckpointReader& reader, const StoredTensor& matrix, int64_t first,
                     int64_t count, at::ScalarType dtype) {
  const at::Tensor stored = reader.get(matrix.name, matrix.shape);
  return copied(reader, matrix.name, stored.narrow(0, first, count), dtype);
}

void check_values(const CheckpointReader& reader, const StoredTensor& tensor,
                  at::ScalarType dtype) {
  reader.read_ahead(tensor.name, tensor.shape);
  for_each_block(reader.get(tensor.name, tensor.shape), [&](const at::Tensor& block, int64_t) {
    if (!all_finite(block.to(dtype))) refuse_value(reader, tensor.name, block, dtype);
    reader.release(tensor.name, block);
  });
}

at::Tensor embed_from(const CheckpointReader& reader, const ModelConfig& config,
                      const at::Tensor& ids, at::ScalarType dtype, at::Device device) {
  const StoredTensor embedding = embedding_tensor(config);
  const at::Tensor table = reader.get(embedding.name, embedding.shape);
  const at::Tensor rows = at::embedding(table, ids).to(dtype).to(at::kFloat);
  reader.release(embedding.name, table);
  const at::Tensor projection = load_end(reader, config, TensorRole::kEmbeddingProjection, dtype);
  return scaled_embedding(to_device(rows, device), to_device(projection, device),
                          config.embedding_scale);
}

}  // namespace dotresize
