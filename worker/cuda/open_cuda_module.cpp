#include <dlfcn.h>

#include <cstdlib>
#include <stdexcept>

#include "worker/cuda/cuda_module.h"

namespace dotresize {
namespace fs = std::filesystem;
namespace {

constexpr char kModule[] = "libdotresize_cuda.so";

fs::path program_directory() { return fs::read_symlink("/proc/self/exe").parent_path(); }

template <typename Function>
Function* symbol(void* library, const char* name) {
  return reinterpret_cast<Function*>(::dlsym(library, name));
}

}  // namespace

fs::path cuda_module_path() {
  if (const char* path = std::getenv("DOTRESIZE_CUDA_MODULE")) return path;
  const fs::path bin = program_directory();
  const fs::path beside = bin / kModule;
  return fs::exists(beside) ? beside : bin.parent_path() / "lib" / kModule;
}

CudaModule& open_cuda_module() {
  static CudaModule* module = [] {
    const fs::path path = cuda_module_path();
    if (!fs::exists(path)) {
      throw std::runtime_error(path.string() + " is not there: this build has no CUDA");
    }
    // Never closed: libtorch's CUDA half cannot be unloaded.
    void* library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL);
    if (library == nullptr) throw std::runtime_error(::dlerror());
    auto* make = symbol<CudaModule*()>(library, "dotresize_cuda_module");
    if (make == nullptr)
      throw std::runtime_error(path.string() + " is no CUDA module of dotresize");
    CudaModule* opened = make();
    set_cuda_kernels(opened->kernels());
    return opened;
  }();
  return *module;
}

std::string why_no_gpu() {
  void* driver = ::dlopen("libcuda.so.1", RTLD_NOW);
  if (driver == nullptr) return "no NVIDIA driver (libcuda.so.1)";
  auto* initialise = symbol<int(unsigned int)>(driver, "cuInit");
  auto* count_devices = symbol<int(int*)>(driver, "cuDeviceGetCount");
  if (initialise == nullptr || count_devices == nullptr) return "libcuda.so.1 is no NVIDIA driver";
  if (const int error = initialise(0)) {
    return "the NVIDIA driver does not start (cuInit: error " + std::to_string(error) + ")";
  }
  int count = 0;
  count_devices(&count);
  return count > 0 ? "" : "no GPU";
}

}  // namespace dotresize
