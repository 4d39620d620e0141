#include "worker/transformer/weights.h"

namespace dotresize {
namespace {

/// The weights with `function` applied to each tensor that there is.
template <class Function>
SublayerWeights transformed(const SublayerWeights& weights, const Function& function) {
  const auto apply = [&](const at::Tensor& tensor) {
    return tensor.defined() ? function(tensor) : tensor;
  };
  SublayerWeights result;
  result.sublayer = weights.sublayer;
  result.norm = apply(weights.norm);
  for (const Linear& linear : weights.in_proj) {
    result.in_proj.push_back({apply(linear.weight), apply(linear.bias)});
  }
  for (const Linear& linear : weights.out_proj) {
    result.out_proj.push_back({apply(linear.weight), apply(linear.bias)});
  }
  for (const at::Tensor& norm : weights.head_norms) result.head_norms.push_back(apply(norm));
  result.shortcut = apply(weights.shortcut);
  return result;
}

}  // namespace

void for_each_tensor(const SublayerWeights& weights,
                     const std::function<void(const at::Tensor&)>& function) {
  transformed(weights, [&](const at::Tensor& tensor) {
    function(tensor);
    return tensor;
  });
}

SublayerWeights to_dtype(const SublayerWeights& weights, at::ScalarType dtype) {
  return transformed(weights, [&](const at::Tensor& tensor) { return tensor.to(dtype); });
}

at::Tensor to_device(const at::Tensor& tensor, at::Device device) {
  if (!tensor.defined() || tensor.device() == device) return tensor;
  if (device.is_cpu()) return tensor.cpu();
  return tensor.pin_memory().to(device, /*non_blocking=*/true);
}

SublayerWeights to_device(const SublayerWeights& weights, at::Device device) {
  return transformed(weights, [&](const at::Tensor& tensor) { return to_device(tensor, device); });
}

HeadWeights to_device(const HeadWeights& weights, at::Device device) {
  return {to_device(weights.norm, device), to_device(weights.weight, device)};
}

}  // namespace dotresize
