// CUDA operators that no CPU kernel can do: memory, copies, and waits of the host.
#include <ATen/ATen.h>
#include <ATen/EmptyTensor.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <c10/core/DeviceGuard.h>
#include <torch/library.h>

#include <string>

#include "tests/cuda/fake_device/memory.h"

namespace dotresize::fake_device {
namespace {

constexpr c10::DispatchKeySet kKeys(c10::DispatchKey::CUDA);

at::Tensor empty(at::IntArrayRef size, std::optional<at::ScalarType> dtype,
                 std::optional<at::Layout>, std::optional<at::Device> device, std::optional<bool>,
                 std::optional<at::MemoryFormat> format) {
  const c10::OptionalDeviceGuard guard(device);
  return at::detail::empty_generic(size, &gpu_allocator(), kKeys,
                                   dtype.value_or(at::get_default_dtype_as_scalartype()), format);
}

at::Tensor empty_strided(at::IntArrayRef size, at::IntArrayRef stride,
                         std::optional<at::ScalarType> dtype, std::optional<at::Layout>,
                         std::optional<at::Device> device, std::optional<bool>) {
  const c10::OptionalDeviceGuard guard(device);
  return at::detail::empty_strided_generic(size, stride, &gpu_allocator(), kKeys,
                                           dtype.value_or(at::get_default_dtype_as_scalartype()));
}

/// Returns a name like "aten::copy_ of Double to Half" or "aten::copy_ to the CPU".
std::string copy_name(const at::Tensor& to, const at::Tensor& from) {
  if (to.is_cpu()) return "aten::copy_ to the CPU";
  if (from.is_cpu()) return "aten::copy_ from the CPU";
  if (to.scalar_type() == from.scalar_type()) return "aten::copy_";
  return std::string("aten::copy_ of ") + at::toString(from.scalar_type()) + " to " +
         at::toString(to.scalar_type());
}

at::Tensor& copy(at::Tensor& to, const at::Tensor& from, bool non_blocking) {
  const at::AutoDispatchBelowADInplaceOrView below;
  const Operation operation(copy_name(to, from),
                            from.is_cuda() ? from.get_device() : to.get_device());
  operation.reads(from);
  operation.writes(to);
  alias_on_cpu(to).copy_(alias_on_cpu(from));
  const bool host = to.is_cpu() || from.is_cpu();
  if (host && !non_blocking) operation.synchronize();
  return to;
}

void record_stream(at::Tensor& tensor, c10::Stream stream) {
  Order::get().record_stream(block_of(tensor).history, name_of(stream));
}

at::Scalar local_scalar(const at::Tensor& tensor) {
  const Operation operation("aten::item", tensor.get_device());
  operation.reads(tensor);
  operation.synchronize();
  return alias_on_cpu(tensor).item();
}

/// Selects the path of products and a softmax, which every GPU supports.
int64_t attention_backend(const at::Tensor&, const at::Tensor&, const at::Tensor&,
                          const std::optional<at::Tensor>&, double, bool, std::optional<double>,
                          bool) {
  return 0;
}

TORCH_LIBRARY_IMPL(aten, CUDA, operators) {
  operators.impl("empty.memory_format", &empty);
  operators.impl("empty_strided", &empty_strided);
  operators.impl("copy_", &copy);
  operators.impl("record_stream", &record_stream);
  operators.impl("_local_scalar_dense", &local_scalar);
  operators.impl("_fused_sdp_choice", &attention_backend);
}

}  // namespace
}  // namespace dotresize::fake_device
