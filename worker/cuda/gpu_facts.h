#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace dotresize {

// Facts of GPUs. None of these functions needs CUDA's libraries.

struct GpuInfo {
  std::string name;    ///< such as "NVIDIA H100 80GB HBM3"
  std::string uuid;    ///< 32 hexadecimal digits, unique to this GPU
  int capability = 0;  ///< 90 for sm_90
  int multiprocessors = 0;
  double clock_hz = 0.0;  ///< highest clock rate
};

/// Returns the upper limit in pairs a second of the l1 kernel (worker/cuda/l1_cost.cu) on a GPU at
/// its highest clock: one instruction a pair, in every lane and cycle.
double l1_cost_limit(const GpuInfo& gpu);

/// A GPU as described by the driver.
struct DriverGpu {
  std::string name;          ///< "Tesla V100-SXM2-32GB"
  int capability = 0;        ///< 70 for sm_70
  int64_t memory_bytes = 0;  ///< total
};

/// NVIDIA's driver on this machine.
struct Driver {
  bool found = false;    ///< libcuda.so.1 can be opened
  std::string fault;     ///< why this process can use no GPU; empty if it can
  int cuda_version = 0;  ///< newest supported CUDA, 12080 for 12.8; 0 if the driver does not start
  std::vector<DriverGpu> gpus;  ///< GPUs visible under CUDA_VISIBLE_DEVICES
};

/// Queries the driver alone, without CUDA's other libraries. Takes milliseconds without a driver.
Driver ask_driver();

}  // namespace dotresize
