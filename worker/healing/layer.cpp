#include "worker/healing/layer.h"

#include <ATen/ATen.h>

#include <map>
#include <utility>

#include "job/model/tensor_table.h"
#include "worker/checkpoint/dtypes.h"
#include "worker/transformer/forward.h"

namespace dotresize {
namespace {

at::Tensor copied(const at::Tensor& tensor, at::ScalarType dtype) {
  return tensor.to(dtype, /*non_blocking=*/false, /*copy=*/true).contiguous();
}

bool is_trained(TensorRole role) {
  return role == TensorRole::kInProjWeight || role == TensorRole::kInProjBias ||
         role == TensorRole::kOutProjWeight || role == TensorRole::kOutProjBias;
}

}  // namespace

LayerWeights copy_of(const LayerWeights& layer, at::ScalarType dtype) {
  LayerWeights copy = layer;
  for (SublayerWeights* sublayer : {&copy.attention, &copy.mlp}) {
    for_each_slot(*sublayer, [&](TensorRole role, size_t, at::Tensor& tensor) {
      if (tensor.defined()) tensor = copied(tensor, held_dtype(role, dtype));
    });
  }
  return copy;
}

LayerWeights stored_copy_of(const LayerWeights& layer, const ModelConfig& config) {
  LayerWeights copy = layer;
  for (SublayerWeights* sublayer : {&copy.attention, &copy.mlp}) {
    std::map<std::pair<TensorRole, size_t>, at::ScalarType> dtypes;
    for (const StoredTensor& stored : sublayer_tensors(config, sublayer->sublayer)) {
      dtypes[{stored.role, stored.index}] = scalar_type(config.files.dtypes.of(stored.name));
    }
    for_each_slot(*sublayer, [&](TensorRole role, size_t index, at::Tensor& tensor) {
      if (tensor.defined()) tensor = copied(tensor, dtypes.at({role, index}));
    });
  }
  return copy;
}

std::vector<at::Tensor> trained_tensors(const LayerWeights& layer) {
  std::vector<at::Tensor> tensors;
  for (const SublayerWeights* sublayer : {&layer.attention, &layer.mlp}) {
    for_each_slot(*sublayer, [&](TensorRole role, size_t, const at::Tensor& tensor) {
      if (is_trained(role) && tensor.defined()) tensors.push_back(tensor);
    });
  }
  return tensors;
}

std::vector<std::string> trained_names(const ModelConfig& config, int64_t layer) {
  std::vector<std::string> names;
  for (const int64_t sublayer : {2 * layer, 2 * layer + 1}) {
    for (const StoredTensor& stored : sublayer_tensors(config, sublayer)) {
      if (is_trained(stored.role)) names.push_back(stored.name);
    }
  }
  return names;
}

at::Tensor layer_forward(const ModelConfig& config, const LayerWeights& layer,
                         const LayerContext& context, const at::Tensor& x,
                         const at::Tensor& experts) {
  const at::Tensor between = sublayer_forward(config, layer.attention, context, x);
  return sublayer_forward(config, layer.mlp, context, between, nullptr, nullptr, experts);
}

}  // namespace dotresize
