// libcuda.so.1 of a machine with two GPUs: the driver calls that the worker makes before it loads
// CUDA.
#include <cstddef>
#include <cstring>

extern "C" {

int cuInit(unsigned int);
int cuDriverGetVersion(int* version);
int cuDeviceGetCount(int* count);
int cuDeviceGetName(char* name, int length, int device);
int cuDeviceGetAttribute(int* value, int attribute, int device);
int cuDeviceTotalMem_v2(size_t* bytes, int device);

int cuInit(unsigned int) { return 0; }

int cuDriverGetVersion(int* version) {
  *version = 12080;
  return 0;
}

int cuDeviceGetCount(int* count) {
  *count = 2;
  return 0;
}

int cuDeviceGetName(char* name, int length, int) {
  std::strncpy(name, "fake GPU", static_cast<size_t>(length));
  return 0;
}

/// Reports compute capability 7.0.
int cuDeviceGetAttribute(int* value, int attribute, int) {
  *value = attribute == 75 ? 7 : 0;
  return 0;
}

int cuDeviceTotalMem_v2(size_t* bytes, int) {
  *bytes = size_t{32} << 30;
  return 0;
}
}
