#include "worker/kernels/mkl_dispatch.h"

extern "C" int mkl_serv_intel_cpu_true() {
#ifdef __x86_64__
  __builtin_cpu_init();
  return __builtin_cpu_is("intel") || __builtin_cpu_supports("avx512f") ? 1 : 0;
#else
  return 0;
#endif
}
