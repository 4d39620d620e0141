#include <dlfcn.h>

#include <array>
#include <cstddef>
#include <type_traits>

#include "worker/cuda/cuda_module.h"

namespace dotresize {
namespace {

// Values of cuda.h.
constexpr int kCapabilityMajor = 75;
constexpr int kCapabilityMinor = 76;

}  // namespace

double l1_cost_limit(const GpuInfo& gpu) {
  constexpr double kLanes = 64.0;  // for a multiprocessor, on every architecture from sm_70 on
  return gpu.multiprocessors * gpu.clock_hz * kLanes;
}

Driver ask_driver() {
  Driver driver;
  void* library = ::dlopen("libcuda.so.1", RTLD_NOW);
  driver.found = library != nullptr;
  if (!driver.found) {
    driver.fault = "no NVIDIA driver (libcuda.so.1)";
    return driver;
  }
  const auto find = [library](const char* name, auto& function) {  // null if it is not there
    function =
        reinterpret_cast<std::remove_reference_t<decltype(function)>>(::dlsym(library, name));
    return function != nullptr;
  };
  int (*initialise)(unsigned int);
  int (*get_version)(int*);
  int (*count_devices)(int*);
  int (*get_name)(char*, int, int);
  int (*get_attribute)(int*, int, int);
  int (*get_memory)(size_t*, int);
  if (!find("cuInit", initialise) || !find("cuDriverGetVersion", get_version) ||
      !find("cuDeviceGetCount", count_devices) || !find("cuDeviceGetName", get_name) ||
      !find("cuDeviceGetAttribute", get_attribute) || !find("cuDeviceTotalMem_v2", get_memory)) {
    driver.fault = "libcuda.so.1 is no NVIDIA driver";
    return driver;
  }
  if (const int error = initialise(0)) {
    driver.fault = "the NVIDIA driver does not start (cuInit: error " + std::to_string(error) + ")";
    return driver;
  }
  get_version(&driver.cuda_version);
  int count = 0;
  count_devices(&count);
  for (int device = 0; device < count; ++device) {  // a device's number serves as its handle
    std::array<char, 256> name{};
    int major = 0;
    int minor = 0;
    size_t memory = 0;
    get_name(name.data(), name.size() - 1, device);
    get_attribute(&major, kCapabilityMajor, device);
    get_attribute(&minor, kCapabilityMinor, device);
    get_memory(&memory, device);
    driver.gpus.push_back({name.data(), 10 * major + minor, static_cast<int64_t>(memory)});
  }
  if (driver.gpus.empty()) driver.fault = "no GPU";
  return driver;
}

}  // namespace dotresize
