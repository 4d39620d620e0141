#include "worker/transformer/weights.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <stdexcept>

#include "job/model/model_config.h"

namespace dotresize {
namespace {

/// Transposes shortcuts and their factors, which are held as [in, out] and stored as [out, in].
at::Tensor stored_or_held(TensorRole role, const at::Tensor& tensor) {
  const bool transposed = role == TensorRole::kShortcut || role == TensorRole::kShortcutA ||
                          role == TensorRole::kShortcutB;
  return transposed ? tensor.t() : tensor;
}

/// Calls visit(stored, tensor) with each of the `tensors` and its slot in the weights. Throws
/// std::logic_error if one has no slot, or if the weights have another tensor.
template <class Weights, class Visit>
void for_each_pair(Weights& weights, const std::vector<StoredTensor>& tensors, const Visit& visit) {
  auto next = tensors.begin();
  for_each_slot(weights, [&](TensorRole role, size_t index, auto& tensor) {
    if (next != tensors.end() && next->role == role && next->index == index) {
      visit(*next++, tensor);
    } else if (tensor.defined()) {
      throw std::logic_error(sublayer_name(weights.sublayer) +
                             " has more tensors than its model stores");
    }
  });
  if (next != tensors.end()) {
    throw std::logic_error(sublayer_name(weights.sublayer) + " has no place for " + next->name);
  }
}

}  // namespace

SublayerWeights make_weights(int64_t sublayer, const std::vector<StoredTensor>& tensors,
                             const std::function<at::Tensor(const StoredTensor&)>& make) {
  const auto count = [&](TensorRole role) {
    return static_cast<size_t>(std::ranges::count(tensors, role, &StoredTensor::role));
  };
  SublayerWeights weights;
  weights.sublayer = sublayer;
  weights.in_proj.resize(count(TensorRole::kInProjWeight));
  weights.out_proj.resize(count(TensorRole::kOutProjWeight));
  weights.head_norms.resize(count(TensorRole::kHeadNorm));
  weights.delta_net.resize(count(TensorRole::kDeltaNet));
  for_each_pair(weights, tensors, [&](const StoredTensor& stored, at::Tensor& tensor) {
    tensor = stored_or_held(stored.role, make(stored));
  });
  return weights;
}

void for_each_stored(const SublayerWeights& weights, const std::vector<StoredTensor>& tensors,
                     const std::function<void(const StoredTensor&, const at::Tensor&)>& visit) {
  for_each_pair(weights, tensors, [&](const StoredTensor& stored, const at::Tensor& tensor) {
    if (!tensor.defined()) {
      throw std::logic_error(sublayer_name(weights.sublayer) + " lacks " + stored.name);
    }
    visit(stored, stored_or_held(stored.role, tensor));
  });
}

at::ScalarType held_dtype(TensorRole role, at::ScalarType dtype) {
  const bool narrow = dtype == at::kHalf || dtype == at::kBFloat16;
  return role == TensorRole::kChoiceBias && narrow ? at::kFloat : dtype;
}

SublayerWeights to_dtype(const SublayerWeights& weights, at::ScalarType dtype) {
  SublayerWeights result = weights;
  for_each_slot(result, [&](TensorRole role, size_t, at::Tensor& tensor) {
    if (tensor.defined()) tensor = tensor.to(held_dtype(role, dtype));
  });
  return result;
}

at::Tensor to_device(const at::Tensor& tensor, at::Device device) {
  if (!tensor.defined() || tensor.device() == device) return tensor;
  if (device.is_cpu()) return tensor.cpu();
  return tensor.pin_memory().to(device, /*non_blocking=*/true);
}

SublayerWeights to_device(const SublayerWeights& weights, at::Device device) {
  SublayerWeights result = weights;
  for_each_tensor(result, [&](at::Tensor& tensor) { tensor = to_device(tensor, device); });
  return result;
}

HeadWeights to_device(const HeadWeights& weights, at::Device device) {
  return {to_device(weights.norm, device), to_device(weights.weight, device),
          to_device(weights.projection, device)};
}

SublayerWeights broadcast_sublayer(Communicator& comm, const std::vector<StoredTensor>& tensors,
                                   const SublayerWeights& owned, int64_t sublayer,
                                   at::ScalarType dtype, at::Device device, int root) {
  SublayerWeights weights = owned;
  if (comm.rank() != root) {
    weights = make_weights(sublayer, tensors, [&](const StoredTensor& tensor) {
      return at::empty(tensor.shape, at::dtype(held_dtype(tensor.role, dtype)).device(device));
    });
  }
  for_each_tensor(weights, [&](at::Tensor& tensor) {
    tensor = tensor.contiguous();
    comm.broadcast(tensor, root);
  });
  return weights;
}

}  // namespace dotresize
