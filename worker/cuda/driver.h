#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace dotresize {

/// A GPU as the driver describes it.
struct DriverGpu {
  std::string name;          ///< "Tesla V100-SXM2-32GB"
  int capability = 0;        ///< 70 for sm_70
  int64_t memory_bytes = 0;  ///< all of it
};

/// NVIDIA's driver on this machine.
struct Driver {
  bool found = false;    ///< libcuda.so.1 can be opened
  std::string fault;     ///< why this process can use no GPU; empty if it can
  int cuda_version = 0;  ///< the newest CUDA that it serves, 12080 for 12.8; 0 if it does not start
  std::vector<DriverGpu> gpus;  ///< those that CUDA_VISIBLE_DEVICES leaves
};

/// Asks the driver alone, without CUDA's other libraries. Takes milliseconds if there is none.
Driver ask_driver();

}  // namespace dotresize
