#include <dlfcn.h>

#include <cstdlib>
#include <stdexcept>

#include "base/process/program.h"
#include "worker/cuda/cuda_module.h"

namespace dotresize {
namespace fs = std::filesystem;
namespace {

constexpr char kModule[] = "libdotresize_cuda.so";

}  // namespace

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
      throw std::runtime_error(path.string() + " is missing: this build has no CUDA");
    }
    // The module stays open, because libtorch's CUDA half cannot be unloaded.
    void* library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL);
    if (library == nullptr) throw std::runtime_error(::dlerror());
    auto* make = reinterpret_cast<CudaModule* (*)()>(::dlsym(library, "dotresize_cuda_module"));
    if (make == nullptr)
      throw std::runtime_error(path.string() + " is not a CUDA module of dotresize");
    CudaModule* opened = make();
    set_cuda_kernels(opened->kernels());
    return opened;
  }();
  return *module;
}

}  // namespace dotresize
