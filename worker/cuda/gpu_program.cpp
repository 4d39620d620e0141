#include "worker/cuda/gpu_program.h"

#include <map>
#include <mutex>
#include <stdexcept>
#include <utility>

namespace dotresize {

void check_cuda(cudaError_t result, const std::string& what) {
  if (result == cudaSuccess) return;
  throw std::runtime_error(what + ": " + cudaGetErrorName(result) + ": " +
                           cudaGetErrorString(result));
}

GpuKernel GpuProgram::kernel(const std::string& kernel_name) const {
  GpuKernel found{nullptr, kernel_name + " of " + name};
  check_cuda(cudaLibraryGetKernel(&found.kernel, library, kernel_name.c_str()),
             "CUDA kernel " + found.name);
  return found;
}

const GpuProgram& loaded_program(const CudaProgram& program, int device) {
  // The programs are never unloaded, because the CUDA runtime may end before this map does.
  static auto& programs = *new std::map<std::string, GpuProgram>;
  static std::mutex mutex;  // guards `programs`
  int major = 0;
  int minor = 0;
  const std::string what = "compute capability of CUDA device " + std::to_string(device);
  check_cuda(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device), what);
  check_cuda(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device), what);
  const int capability = architecture_for(10 * major + minor);
  std::string key = program.name + " " + std::to_string(capability);
  for (const std::string& option : program.options) key += " " + option;

  const std::lock_guard<std::mutex> lock(mutex);
  if (const auto found = programs.find(key); found != programs.end()) return found->second;
  GpuProgram loaded{program.name + " for sm_" + std::to_string(capability)};
  const std::string cubin = CubinCache{default_cubin_directory()}.get(program, capability);
  check_cuda(
      cudaLibraryLoadData(&loaded.library, cubin.data(), nullptr, nullptr, 0, nullptr, nullptr, 0),
      "CUDA program " + loaded.name);
  return programs.emplace(std::move(key), std::move(loaded)).first->second;
}

}  // namespace dotresize
