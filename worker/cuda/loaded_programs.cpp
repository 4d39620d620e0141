#include "worker/cuda/loaded_programs.h"

#include <memory>

#include "worker/cuda/cubin_cache.h"

namespace dotresize {

const GpuProgram& loaded_program(const CudaProgram& program, int device) {
  // Never unloaded: at the end of the process the CUDA runtime may be gone before this is.
  static auto& programs = *new std::map<std::string, std::unique_ptr<GpuProgram>>;
  static std::mutex mutex;
  const int capability = compute_capability(device);
  std::string key = program.name + " " + std::to_string(capability);
  for (const std::string& option : program.options) key += " " + option;
  const std::lock_guard<std::mutex> lock(mutex);
  std::unique_ptr<GpuProgram>& loaded = programs[key];
  if (!loaded) loaded = std::make_unique<GpuProgram>(program, capability);
  return *loaded;
}

}  // namespace dotresize
