#include "worker/cuda/gpu_program.h"

#include <c10/cuda/CUDAStream.h>

#include <stdexcept>

#include "worker/cuda/cubin_cache.h"

namespace dotresize {

void check_cuda(cudaError_t result, const std::string& what) {
  if (result == cudaSuccess) return;
  throw std::runtime_error(what + ": " + cudaGetErrorName(result) + ": " +
                           cudaGetErrorString(result));
}

int compute_capability(int device) {
  int major = 0;
  int minor = 0;
  const std::string what = "compute capability of CUDA device " + std::to_string(device);
  check_cuda(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device), what);
  check_cuda(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device), what);
  return 10 * major + minor;
}

void GpuKernel::launch_with(dim3 grid, dim3 block, void** arguments) const {
  check_cuda(cudaLaunchKernel(reinterpret_cast<const void*>(kernel_), grid, block, arguments,
                              /*sharedMem=*/0, c10::cuda::getCurrentCUDAStream()),
             "CUDA kernel " + name_);
}

GpuProgram::GpuProgram(const CudaProgram& program, int capability)
    : name_(program.name + " for sm_" + std::to_string(capability)) {
  const std::string cubin = CubinCache(default_cubin_directory()).get(program, capability);
  check_cuda(cudaLibraryLoadData(&library_, cubin.data(), nullptr, nullptr, 0, nullptr, nullptr, 0),
             "CUDA program " + name_);
}

GpuProgram::~GpuProgram() { cudaLibraryUnload(library_); }

GpuKernel GpuProgram::kernel(const std::string& name) const {
  cudaKernel_t kernel = nullptr;
  check_cuda(cudaLibraryGetKernel(&kernel, library_, name.c_str()),
             "CUDA kernel " + name + " of " + name_);
  return {kernel, name + " of " + name_};
}

}  // namespace dotresize
