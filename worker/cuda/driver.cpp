#include "worker/cuda/driver.h"

#include <dlfcn.h>

#include <array>
#include <cstddef>

#include "worker/cuda/cuda_module.h"

namespace dotresize {
namespace {

// Values of cuda.h.
constexpr int kCapabilityMajor = 75;
constexpr int kCapabilityMinor = 76;

/// Functions of libcuda that are used; null if it lacks one.
struct DriverCalls {
  int (*initialise)(unsigned int) = nullptr;
  int (*get_version)(int*) = nullptr;
  int (*count_devices)(int*) = nullptr;
  int (*get_name)(char*, int, int) = nullptr;
  int (*get_attribute)(int*, int, int) = nullptr;
  int (*get_memory)(size_t*, int) = nullptr;
};

template <typename Function>
void find(void* library, const char* name, Function*& function) {
  function = reinterpret_cast<Function*>(::dlsym(library, name));
}

DriverCalls calls_of(void* library) {
  DriverCalls calls;
  find(library, "cuInit", calls.initialise);
  find(library, "cuDriverGetVersion", calls.get_version);
  find(library, "cuDeviceGetCount", calls.count_devices);
  find(library, "cuDeviceGetName", calls.get_name);
  find(library, "cuDeviceGetAttribute", calls.get_attribute);
  find(library, "cuDeviceTotalMem_v2", calls.get_memory);
  return calls;
}

/// Describes a device; its number serves as its handle.
DriverGpu describe(const DriverCalls& calls, int device) {
  std::array<char, 256> name{};
  int major = 0;
  int minor = 0;
  size_t memory = 0;
  calls.get_name(name.data(), name.size() - 1, device);
  calls.get_attribute(&major, kCapabilityMajor, device);
  calls.get_attribute(&minor, kCapabilityMinor, device);
  calls.get_memory(&memory, device);
  return {name.data(), 10 * major + minor, static_cast<int64_t>(memory)};
}

}  // namespace

Driver ask_driver() {
  Driver driver;
  void* library = ::dlopen("libcuda.so.1", RTLD_NOW);
  driver.found = library != nullptr;
  if (!driver.found) {
    driver.fault = "no NVIDIA driver (libcuda.so.1)";
    return driver;
  }
  const DriverCalls calls = calls_of(library);
  if (!calls.initialise || !calls.get_version || !calls.count_devices || !calls.get_name ||
      !calls.get_attribute || !calls.get_memory) {
    driver.fault = "libcuda.so.1 is no NVIDIA driver";
    return driver;
  }
  if (const int error = calls.initialise(0)) {
    driver.fault = "the NVIDIA driver does not start (cuInit: error " + std::to_string(error) + ")";
    return driver;
  }
  calls.get_version(&driver.cuda_version);
  int count = 0;
  calls.count_devices(&count);
  for (int device = 0; device < count; ++device) driver.gpus.push_back(describe(calls, device));
  if (driver.gpus.empty()) driver.fault = "no GPU";
  return driver;
}

std::string why_no_gpu() { return ask_driver().fault; }

}  // namespace dotresize
