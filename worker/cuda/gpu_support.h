#pragma once

#include <string>
#include <vector>

namespace dotresize {

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
