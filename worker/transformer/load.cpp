#include "worker/transformer/load.h"

#include <ATen/ATen.h>

#include <string>

#include "base/errors.h"
#include "worker/checkpoint/elements.h"

namespace dotresize {
namespace {

[[noreturn]] void refuse_value(const std::string& name, const at::Tensor& stored,
                               at::ScalarType dtype) {
  if (!all_finite(stored)) throw InputError("tensor '" + name + "' holds NaN or infinity");
  throw InputError("tensor '" + name + "' holds a value beyond the range of " +
                   std::string(c10::toString(dtype)) + "; compute in float32 or bfloat16");
}

/// A copy of `stored`, a view of the mapped tensor of that name, block by block: what is copied is
/// not held twice.
at::Tensor copy_checked(const CheckpointReader& reader, const std::string& name,
                        const at::Tensor& stored, at::ScalarType dtype) {
  at::Tensor loaded = at::empty(stored.sizes(), dtype);
  for_each_block(stored, [&](const at::Tensor& block, int64_t first) {
    at::Tensor copy = loaded.view({-1}).narrow(0, first, block.numel());
    copy.copy_(block);
    if (!all_finite(copy)) refuse_value(name, block, dtype);
    reader.release(name, block);
  });
  return loaded;
}

at::Tensor load_tensor(const CheckpointReader& reader, const StoredTensor& wanted,
                       at::ScalarType dtype) {
  const at::Tensor stored = reader.get(wanted.name, wanted.shape);
  reader.read_ahead(wanted.name);
  return copy_checked(reader, wanted.name, stored, dtype);
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
  for (const StoredTensor& tensor : sublayer_tensors(config, sublayer)) {
    reader.get(tensor.name, tensor.shape);
    reader.read_ahead(tensor.name);
  }
}

at::Tensor load_embedding(const CheckpointReader& reader, const ModelConfig& config,
                          at::ScalarType dtype) {
  return load_tensor(reader, embedding_tensor(config), dtype);
}

StoredTensor head_matrix(const ModelConfig& config) {
  return config.tie_word_embeddings ? embedding_tensor(config) : head_tensors(config).back();
}

at::Tensor load_final_norm(const CheckpointReader& reader, const ModelConfig& config,
                           at::ScalarType dtype) {
  const StoredTensor first = head_tensors(config).front();
  return first.role == TensorRole::kFinalNorm ? load_tensor(reader, first, dtype) : at::Tensor();
}

HeadWeights load_head(const CheckpointReader& reader, const ModelConfig& config,
                      at::ScalarType dtype) {
  return {load_final_norm(reader, config, dtype),
          load_tensor(reader, head_matrix(config), dtype)};
}

at::Tensor load_rows(const CheckpointReader& reader, const StoredTensor& matrix, int64_t first,
                     int64_t count, at::ScalarType dtype) {
  const at::Tensor stored = reader.get(matrix.name, matrix.shape).narrow(0, first, count);
  return copy_checked(reader, matrix.name, stored, dtype);
}

void check_values(const CheckpointReader& reader, const StoredTensor& tensor,
                  at::ScalarType dtype) {
  const at::Tensor stored = reader.get(tensor.name, tensor.shape);
  reader.read_ahead(tensor.name);
  for_each_block(stored, [&](const at::Tensor& block, int64_t) {
    if (!all_finite(block.to(dtype))) refuse_value(tensor.name, block, dtype);
    reader.release(tensor.name, block);
  });
}

at::Tensor embed_from(const CheckpointReader& reader, const ModelConfig& config,
                      const at::Tensor& ids, at::ScalarType dtype, at::Device device) {
  const StoredTensor embedding = embedding_tensor(config);
  const at::Tensor table = reader.get(embedding.name, embedding.shape);
  const at::Tensor rows = at::embedding(table, ids).to(dtype).to(at::kFloat);
  reader.release(embedding.name, table);
  return to_device(rows, device);
}

}  // namespace dotresize
