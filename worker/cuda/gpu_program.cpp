#include "worker/cuda/gpu_program.h"

#include <c10/cuda/CUDAStream.h>

#include <map>
#include <memory>
#include <mutex>
#include <stdexcept>

namespace dotresize {
namespace {

/// Returns 70 for sm_70.
int compute_capability(int device) {
  int major = 0;
  int minor = 0;
  const std::string what = "compute capability of CUDA device " + std::to_string(device);
  check_cuda(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device), what);
  check_cuda(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device), what);
  return 10 * major + minor;
}

}  // namespace

void check_cuda(cudaError_t result, const std::string& what) {
  if (result == cudaSuccess) return;
  throw std::runtime_error(what + ": " + cudaGetErrorName(result) + ": " +
                           cudaGetErrorString(result));
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

const GpuProgram& loaded_program(const CudaProgram& program, int device) {
  // The programs are never unloaded, because the CUDA runtime may end before this map does.
  static auto& programs = *new std::map<std::string, std::unique_ptr<GpuProgram>>;
  static std::mutex mutex;
  const int capability = architecture_for(compute_capability(device));
  std::string key = program.name + " " + std::to_string(capability);
  for (const std::string& option : program.options) key += " " + option;
  const std::lock_guard<std::mutex> lock(mutex);
  std::unique_ptr<GpuProgram>& loaded = programs[key];
  if (!loaded) loaded = std::make_unique<GpuProgram>(program, capability);
  return *loaded;
}

}  // namespace dotresize
