// All other CUDA operators: the CPU's kernel computes on the same memory.
#include <ATen/ATen.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/DeviceGuard.h>
#include <torch/library.h>

#include <algorithm>
#include <vector>

#include "tests/cuda/fake_device/memory.h"
#include "tests/cuda/fake_device/streams.h"

namespace dotresize::fake_device {
namespace {

/// An operator's argument, and the tensor that the CPU's kernel gets for it.
struct Given {
  at::Tensor gpu;
  at::Tensor cpu;
  bool written = false;
};

bool is_written(const c10::Argument& argument) {
  return argument.alias_info() != nullptr && argument.alias_info()->isWrite();
}

/// Returns whether the operator makes a view. A view has no kernel, so nothing is read.
bool is_view(const c10::FunctionSchema& schema) {
  return std::ranges::any_of(schema.returns(), [](const c10::Argument& result) {
    return result.alias_info() != nullptr && !result.alias_info()->isWrite();
  });
}

/// Returns whether the result tells the host something (a number, or how much was found), so that
/// the host has waited for it.
bool tells_the_host(const c10::FunctionSchema& schema) {
  if (schema.name() == "aten::nonzero" || schema.name() == "aten::masked_select") return true;
  return std::ranges::any_of(schema.returns(), [](const c10::Argument& result) {
    const c10::TypeKind kind = result.type()->kind();
    return kind != c10::TypeKind::TensorType && kind != c10::TypeKind::ListType;
  });
}

class Call {
 public:
  explicit Call(const c10::FunctionSchema& schema) : schema_(schema) {}

  /// Returns the argument for the CPU's kernel.
  c10::IValue to_cpu(const c10::IValue& value, const c10::Argument& argument) {
    const bool written = is_written(argument);
    if (value.isTensor()) return take(value.toTensor(), written);
    if (schema_.name() == "aten::_linalg_svd" && argument.name() == "driver") {
      require_driver(value);
      return {};  // the CPU has no drivers
    }
    if (value.isDevice() && value.toDevice().is_cuda()) {
      device_ = value.toDevice();
      return at::Device(at::kCPU);
    }
    if (value.isTensorList()) {
      c10::List<at::Tensor> list;
      for (const at::Tensor& tensor : value.toTensorVector()) list.push_back(take(tensor, written));
      return list;
    }
    if (!value.isOptionalTensorList()) return value;
    c10::List<std::optional<at::Tensor>> list;  // indices, which may be on the CPU
    for (const std::optional<at::Tensor>& tensor : value.toOptionalTensorVector()) {
      const bool on_gpu = tensor && tensor->is_cuda();
      list.push_back(on_gpu ? std::optional(take(*tensor, written)) : tensor);
    }
    return list;
  }

  /// Must come before the kernel runs. Throws like Order.
  void enqueue() {
    if (is_view(schema_)) return;
    operation_.emplace(schema_.name(), device().index());
    for (const Given& given : given_) {
      given.written ? operation_->writes(given.gpu) : operation_->reads(given.gpu);
    }
  }

  /// Must come after the kernel has run.
  void finish() {
    for (const Given& given : given_) {
      if (given.written) take_over(given);
    }
    if (operation_ && tells_the_host(schema_)) operation_->synchronize();
  }

  /// Converts a result of the CPU's kernel.
  c10::IValue to_gpu(const c10::IValue& value) {
    if (value.isTensor()) return give(value.toTensor());
    if (!value.isTensorList()) return value;
    c10::List<at::Tensor> list;
    for (const at::Tensor& tensor : value.toTensorVector()) list.push_back(give(tensor));
    return list;
  }

  at::Device device() const { return device_.value_or(at::Device(at::kCUDA, current_device())); }

 private:
  /// Throws if the caller left the driver to libtorch, whose default ignores the running time.
  void require_driver(const c10::IValue& driver) {
    const bool known = driver.isString() &&
                       (driver.toStringView() == "gesvd" || driver.toStringView() == "gesvdj");
    TORCH_CHECK(known, schema_.name(), ": no driver was chosen for a GPU, but ", driver);
  }

  at::Tensor take(const at::Tensor& tensor, bool written) {
    if (!tensor.defined()) return tensor;
    if (tensor.is_cpu()) {
      TORCH_CHECK(tensor.dim() == 0 && !written, schema_.name(),
                  ": a tensor is on the CPU, others are on a GPU");
      return tensor;
    }
    TORCH_CHECK(!device_ || *device_ == tensor.device(), schema_.name(), ": tensors on ", *device_,
                " and ", tensor.device());
    device_ = tensor.device();
    const auto same = std::ranges::find_if(
        given_, [&](const Given& other) { return other.gpu.is_alias_of(tensor); });
    at::Tensor cpu = alias_on_cpu(tensor);
    if (same != given_.end()) {
      cpu.unsafeGetTensorImpl()->set_storage_keep_dtype(same->cpu.storage());
    }
    given_.push_back({tensor, cpu, written});
    return cpu;
  }

  /// Takes over the shape and storage of a result, which the kernel may have changed.
  void take_over(const Given& given) {
    c10::TensorImpl* gpu = given.gpu.unsafeGetTensorImpl();
    if (given.cpu.storage().data() != given.gpu.storage().data()) {
      const c10::DeviceGuard guard(device());
      gpu->set_storage_keep_dtype(fake_device::to_gpu(given.cpu.storage()));
      operation_->writes(given.gpu);
    }
    if (given.cpu.sizes() == given.gpu.sizes() && given.cpu.strides() == given.gpu.strides()) {
      return;
    }
    gpu->set_sizes_and_strides(given.cpu.sizes(), given.cpu.strides(), given.cpu.storage_offset());
  }

  at::Tensor give(const at::Tensor& result) {
    if (!result.defined()) return result;
    for (const Given& given : given_) {
      if (given.cpu.is_same(result)) return given.gpu;
    }
    for (const Given& given : given_) {
      if (given.cpu.is_alias_of(result)) return view_of(given.gpu, result);
    }
    const c10::DeviceGuard guard(device());
    const at::Tensor gpu =
        shaped_as(result, at::detail::make_tensor<c10::TensorImpl>(
                              fake_device::to_gpu(result.storage()),
                              c10::DispatchKeySet(c10::DispatchKey::CUDA), result.dtype()));
    operation_->writes(gpu);
    given_.push_back({gpu, result, /*written=*/false});
    return gpu;
  }

  /// Makes a view the way libtorch does: not an inference tensor unless its base is one.
  static at::Tensor view_of(const at::Tensor& gpu, const at::Tensor& like) {
    return shaped_as(
        like, at::detail::make_tensor<c10::TensorImpl>(
                  c10::TensorImpl::VIEW, c10::Storage(gpu.storage()), gpu.key_set(), like.dtype()));
  }

  static at::Tensor shaped_as(const at::Tensor& like, at::Tensor made) {
    made.unsafeGetTensorImpl()->set_sizes_and_strides(like.sizes(), like.strides(),
                                                      like.storage_offset());
    return made;
  }

  const c10::FunctionSchema& schema_;
  std::optional<at::Device> device_;
  std::optional<Operation> operation_;
  std::vector<Given> given_;
};

void run_on_cpu(const c10::OperatorHandle& op, c10::DispatchKeySet, torch::jit::Stack* stack) {
  const at::AutoDispatchBelowADInplaceOrView below;
  const c10::FunctionSchema& schema = op.schema();
  Call call(schema);
  const size_t first = stack->size() - schema.arguments().size();
  for (size_t i = 0; i < schema.arguments().size(); ++i) {
    (*stack)[first + i] = call.to_cpu((*stack)[first + i], schema.arguments()[i]);
  }
  call.enqueue();
  op.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), stack);
  call.finish();
  for (size_t i = first; i < stack->size(); ++i) (*stack)[i] = call.to_gpu((*stack)[i]);
}

TORCH_LIBRARY_IMPL(_, CUDA, fallback) {
  fallback.fallback(torch::CppFunction::makeFromBoxedFunction<&run_on_cpu>());
}

// Without a kernel of the device they would look for those of CUDA, by the tensors' device.
TORCH_LIBRARY_IMPL(aten, CUDA, convolutions) {
  for (const char* name : {"convolution", "convolution_backward"}) {
    convolutions.impl(name, torch::CppFunction::makeFromBoxedFunction<&run_on_cpu>());
  }
}

}  // namespace
}  // namespace dotresize::fake_device
