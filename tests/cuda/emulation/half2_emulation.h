// The emulation's version of the PTX operations of worker/cuda/half2.cuh: each rounds to float16
// once. Takes that file's place if included before the kernels.
#ifndef DOTRESIZE_HALF2
#define DOTRESIZE_HALF2

#include <c10/util/Half.h>

typedef unsigned int Half2;

inline float half_to_float(unsigned int bits) {
  return c10::Half(static_cast<unsigned short>(bits), c10::Half::from_bits());
}

inline unsigned int float_to_half(float value) { return c10::Half(value).x; }

template <class Operation>
Half2 for_both(Half2 a, Half2 b, const Operation& operation) {
  const float low = operation(half_to_float(a & 0xffff), half_to_float(b & 0xffff));
  const float high = operation(half_to_float(a >> 16), half_to_float(b >> 16));
  return float_to_half(low) | float_to_half(high) << 16;
}

inline Half2 twice(unsigned short value) { return value * 0x10001u; }

inline Half2 abs_difference(Half2 a, Half2 b) {
  return for_both(a, b, [](float x, float y) { return std::fabs(x - y); });
}

inline Half2 add(Half2 a, Half2 b) {
  return for_both(a, b, [](float x, float y) { return x + y; });
}

inline void add_to(float& low, float& high, Half2 value) {
  low += half_to_float(value & 0xffff);
  high += half_to_float(value >> 16);
}

#endif
