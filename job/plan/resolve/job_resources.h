#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "dotresize/v1/job.pb.h"
#include "job/plan/resolved_job.h"

namespace dotresize {

/// Facts that are known once a job's ranks are launched. They decide what the spec leaves open.
struct LaunchFacts {
  int ranks = 1;  ///< replaces the number in the spec
  DeviceFacts devices = {};
  /// Budgets in bytes: host memory per rank, and memory of the smallest GPU. Budgets in the spec
  /// replace them.
  std::optional<int64_t> memory = {};
  std::optional<int64_t> device_memory = {};
  /// Schedule of the interrupted run whose maps the job continues with; empty if there is none. If
  /// the job can use it with its activations, it is kept, and no other schedule is tried to save
  /// memory.
  std::string schedule = {};
};

/// Returns the ranks, their device and budgets. What the spec leaves open follows from the launch.
/// Throws InputError naming the key if there are more ranks than sublayers.
JobResources job_resources(const v1::JobSpec& spec, const ModelConfig& config,
                           const std::optional<LaunchFacts>& launch);

/// Device that `resources.device` asks for; nullopt for `auto`.
std::optional<DeviceKind> asked_device(const v1::JobSpec& spec);

/// Dtype that `compute_dtype: auto` means on GPUs of this compute capability (90 for sm_90).
Dtype auto_gpu_dtype(int capability);

}  // namespace dotresize
