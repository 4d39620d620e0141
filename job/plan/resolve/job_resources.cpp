#include "job/plan/resolve/job_resources.h"

#include <string>

#include "base/errors.h"
#include "base/text/human_text.h"
#include "job/spec/validate_spec.h"

namespace dotresize {
namespace {

/// Compute capability of the first GPUs that compute in bfloat16: sm_80.
constexpr int kFirstCapabilityWithBfloat16 = 80;

}  // namespace

JobResources job_resources(const v1::JobSpec& spec, const ModelConfig& config,
                           const std::optional<LaunchFacts>& launch) {
  const v1::Resources& given = spec.resources();
  JobResources resources;
  resources.ranks = launch ? launch->ranks : ranks_of(spec);
  if (resources.ranks > config.num_sublayers()) {
    throw InputError("resources.ranks", std::to_string(resources.ranks) +
                                            " is more than the model's " +
                                            std::to_string(config.num_sublayers()) +
                                            " sublayers (an attention and an MLP per layer)");
  }

  const std::optional<Dtype> dtype = find_dtype(v1::ComputeDtype::Name_Name(given.compute_dtype()));
  const std::optional<DeviceKind> device = launch ? launch->devices.device : asked_device(spec);
  resources.device = device.value_or(DeviceKind::kCpu);
  if (device != DeviceKind::kCpu) {
    const int capability = launch ? launch->devices.least_capability : kFirstCapabilityWithBfloat16;
    resources.gpu_compute_dtype = dtype.value_or(auto_gpu_dtype(capability));
  }
  resources.compute_dtype = resources.device == DeviceKind::kCuda ? *resources.gpu_compute_dtype
                                                                  : dtype.value_or(Dtype::kFloat32);

  if (launch) {
    resources.memory = launch->memory;
    resources.device_memory = launch->device_memory;
  }
  if (given.has_memory()) resources.memory = parse_bytes(given.memory());
  if (given.has_device_memory()) resources.device_memory = parse_bytes(given.device_memory());
  if (given.has_timeout_s()) resources.timeout_s = static_cast<int>(given.timeout_s());
  return resources;
}

Dtype auto_gpu_dtype(int capability) {
  return capability >= kFirstCapabilityWithBfloat16 ? Dtype::kBFloat16 : Dtype::kFloat16;
}

std::optional<DeviceKind> asked_device(const v1::JobSpec& spec) {
  switch (spec.resources().device()) {
    case v1::Resources::cpu:
      return DeviceKind::kCpu;
    case v1::Resources::cuda:
      return DeviceKind::kCuda;
    default:
      return std::nullopt;
  }
}

}  // namespace dotresize
