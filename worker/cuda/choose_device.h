#pragma once

#include <c10/core/Device.h>

#include <optional>
#include <string>

#include "job/plan/device.h"
#include "worker/comm/communicator.h"
#include "worker/cuda/cuda_module.h"

namespace dotresize {

/// The device that this rank computes on.
struct ChosenDevice {
  at::Device device = at::kCPU;
  CudaModule* cuda = nullptr;  ///< if the device is a GPU
  std::string name;            ///< of the GPU: "NVIDIA H100 80GB HBM3 (sm_90)"
  int least_capability = 0;    ///< of all ranks' GPUs: 90 for sm_90
  /// Why the ranks compute on the CPU although there are GPUs: a warning. Else empty.
  std::string why_not_cuda = {};

  DeviceFacts facts() const {
    return {cuda ? DeviceKind::kCuda : DeviceKind::kCpu, least_capability};
  }
};

/// One device for every rank: all of them compute on GPUs, each on its own, or none does. Without
/// a kind (`auto`) on GPUs if every rank has one to itself for which libtorch has kernels and ours
/// compile, and which has computed something.
/// `local_rank`: among the ranks on this host, which take the visible GPUs in turn. Collective.
/// Throws InputError for `kCuda` if a rank has no GPU, naming rank and reason; all ranks throw.
ChosenDevice choose_device(std::optional<DeviceKind> asked, Communicator& comm, int local_rank);

}  // namespace dotresize
