#pragma once

#include <c10/core/Device.h>

#include <string>

#include "worker/comm/communicator.h"
#include "worker/cuda/cuda_module.h"

namespace dotresize {

enum class DeviceChoice { kAuto, kCpu, kCuda };

/// The device that this rank computes on.
struct ChosenDevice {
  at::Device device = at::kCPU;
  CudaModule* cuda = nullptr;  ///< if the device is a GPU
  std::string name;            ///< of the GPU: "NVIDIA H100 80GB HBM3 (sm_90)"
  int least_capability = 0;    ///< of all ranks' GPUs: 90 for sm_90
};

/// One device for every rank: all of them compute on GPUs, each on its own, or none does. `kAuto`:
/// on GPUs if every rank has its own. `local_rank`: among the ranks on this host, which
/// take the visible GPUs in turn. Collective. Throws InputError for `kCuda` if a rank has no
/// GPU, naming rank and reason; all ranks throw.
ChosenDevice choose_device(DeviceChoice choice, Communicator& comm, int local_rank);

}  // namespace dotresize
