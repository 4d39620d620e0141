#pragma once

#include <optional>

#include "dotresize/v1/job.pb.h"
#include "job/plan/resolve/resolve_job.h"

namespace dotresize {

/// Returns the ranks, their device and budgets. What the spec leaves open follows from the launch.
/// Throws InputError naming the key if there are more ranks than sublayers.
JobResources job_resources(const v1::JobSpec& spec, const ModelConfig& config,
                           const std::optional<LaunchFacts>& launch);

/// Device that `resources.device` asks for; nullopt for `auto`.
std::optional<DeviceKind> asked_device(const v1::JobSpec& spec);

/// Dtype that `compute_dtype: auto` means on GPUs of this compute capability (90 for sm_90).
Dtype auto_gpu_dtype(int capability);

}  // namespace dotresize
