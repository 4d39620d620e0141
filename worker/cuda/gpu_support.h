#pragma once

#include <string>
#include <vector>

namespace dotresize {

/// GPU architectures that a libtorch was compiled for: 70 for sm_70.
struct GpuCode {
  std::vector<int> binaries;  ///< run on the same major version, from this minor version on
  std::vector<int> portable;  ///< PTX, which the driver compiles for any GPU from this one on
};

/// From the flags of nvcc: "-gencode;arch=compute_70,code=sm_70;...".
GpuCode gpu_code(const std::string& flags);

/// Why code cannot run on a GPU of this compute capability (90 for sm_90): "libtorch has no kernels
/// for sm_60, only for sm_70, sm_75: ..."; empty if it can.
std::string why_no_code_for(int capability, const GpuCode& code);

}  // namespace dotresize
