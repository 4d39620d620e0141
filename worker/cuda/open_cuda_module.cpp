#include <dlfcn.h>

#include <cstdlib>
#include <stdexcept>

#include "base/process/environment.h"
#include "worker/cuda/cuda_module.h"

namespace dotresize {
namespace fs = std::filesystem;
namespace {

constexpr char kModule[] = "libdotresize_cuda.so";

}  // namespace

double l1_cost_limit(const GpuInfo& gpu, at::ScalarType dtype) {
  constexpr double kAdditionsOfAPair = 2.0;
  // Additions that a multiprocessor completes in a cycle: CUDA C++ Programming Guide, "Throughput
  // of Native Arithmetic Instructions". An HADD2 counts as two.
  double additions = gpu.capability <= 80 ? 64.0 : 128.0;
  if (dtype == at::kHalf) {
    const bool data_centre =
        gpu.capability == 80 || gpu.capability == 90 || gpu.capability / 10 == 10;
    additions = data_centre ? 256.0 : 128.0;
  }
  return gpu.multiprocessors * gpu.clock_hz * additions / kAdditionsOfAPair;
}

fs::path cuda_module_path() {
  if (const char* path = std::getenv("DOTRESIZE_CUDA_MODULE")) return path;
  const fs::path bin = folder_of_this_program();
  const fs::path beside = bin / kModule;
  return fs::exists(beside) ? beside : bin.parent_path() / "lib" / kModule;
}

CudaModule& open_cuda_module() {
  static CudaModule* module = [] {
    const fs::path path = cuda_module_path();
    if (!fs::exists(path)) {
      throw std::runtime_error(path.string() + " is not there: this build has no CUDA");
    }
    // The module stays open, because libtorch's CUDA half cannot be unloaded.
    void* library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL);
    if (library == nullptr) throw std::runtime_error(::dlerror());
    auto* make = reinterpret_cast<CudaModule* (*)()>(::dlsym(library, "dotresize_cuda_module"));
    if (make == nullptr)
      throw std::runtime_error(path.string() + " is no CUDA module of dotresize");
    CudaModule* opened = make();
    kernels_of_process = opened->kernels();
    return opened;
  }();
  return *module;
}

}  // namespace dotresize
