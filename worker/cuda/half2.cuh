// Arithmetic on pairs of float16 numbers, in PTX. cuda_fp16.h would have to be found at run time.
#ifndef DOTRESIZE_HALF2
#define DOTRESIZE_HALF2

/// Two float16 numbers, the first in the low half.
typedef unsigned int Half2;

__device__ __forceinline__ Half2 twice(unsigned short value) { return value * 0x10001u; }

__device__ __forceinline__ Half2 abs_difference(Half2 a, Half2 b) {
  Half2 result;
  asm("{ .reg .b32 d; sub.f16x2 d, %1, %2; abs.f16x2 %0, d; }" : "=r"(result) : "r"(a), "r"(b));
  return result;
}

__device__ __forceinline__ Half2 add(Half2 a, Half2 b) {
  Half2 result;
  asm("add.f16x2 %0, %1, %2;" : "=r"(result) : "r"(a), "r"(b));
  return result;
}

__device__ __forceinline__ void add_to(float& low, float& high, Half2 value) {
  float a;
  float b;
  asm("{ .reg .b16 l, h; mov.b32 {l, h}, %2; cvt.f32.f16 %0, l; cvt.f32.f16 %1, h; }"
      : "=f"(a), "=f"(b)
      : "r"(value));
  low += a;
  high += b;
}

#endif
