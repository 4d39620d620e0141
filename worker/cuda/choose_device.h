#pragma once

#include <c10/core/Device.h>

#include <optional>
#include <string>
#include <vector>

#include "job/plan/device.h"
#include "worker/comm/communicator.h"
#include "worker/cuda/cuda_module.h"

namespace dotresize {

/// The device that a rank computes on.
struct ChosenDevice {
  at::Device device = at::kCPU;
  CudaModule* cuda = nullptr;  ///< null on the CPU
  std::string name;            ///< GPU name: "NVIDIA H100 80GB HBM3 (sm_90)"
  int least_capability = 0;    ///< lowest of all ranks' GPUs: 90 for sm_90
  /// Warning: why the ranks compute on the CPU although there are GPUs; otherwise empty.
  std::string why_not_cuda = {};

  DeviceFacts facts() const {
    return {cuda ? DeviceKind::kCuda : DeviceKind::kCpu, least_capability};
  }
};

/// Chooses the device of every rank: either each rank computes on its own GPU, or none uses a GPU.
/// Without a kind (`auto`) GPUs are chosen if every rank has its own, libtorch has kernels for it,
/// our kernels compile for it, and a trial computation on it succeeds. `local_rank`: number of this
/// rank among those of its host, which take the visible GPUs in turn. Collective. For `kCuda` all
/// ranks throw InputError if one has no GPU, naming rank and reason.
ChosenDevice choose_device(std::optional<DeviceKind> asked, Communicator& comm, int local_rank);

/// GPU architectures of a libtorch build: 70 for sm_70.
struct GpuCode {
  std::vector<int> binaries;  ///< machine code; runs on the same major version, from this minor
                              ///< version on
  std::vector<int> portable;  ///< PTX; the driver compiles it for any GPU from this one on
};

/// Parses nvcc flags: "-gencode;arch=compute_70,code=sm_70;...".
GpuCode gpu_code(const std::string& flags);

/// Returns why the code cannot run on a GPU of this compute capability (90 for sm_90): "libtorch
/// has no kernels for sm_60, only for sm_70, sm_75: ..."; empty if it can.
std::string why_no_code_for(int capability, const GpuCode& code);

}  // namespace dotresize
