#include "bench/max_add_limit.h"

#define HWY_DISABLED_TARGETS (HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_RVV)
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "bench/max_add_limit.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace dotresize {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
using Floats = hn::CappedTag<float, 16>;

/// Number of chains: enough to hide the latency of both operations, few enough for the 32 or 16
/// vector registers.
#if HWY_TARGET <= HWY_AVX3 || HWY_TARGET == HWY_NEON
constexpr size_t kChains = 24;
#else
constexpr size_t kChains = 12;
#endif

size_t max_add(size_t rounds) {
  const Floats floats;
  HWY_ALIGN float values[16 * kChains];
  for (size_t i = 0; i < 16 * kChains; ++i) values[i] = static_cast<float>(i);
  const auto one = hn::Set(floats, 1.0f);
  const auto other = hn::Load(floats, values);
  hn::Vec<Floats> chains[kChains];
  for (size_t k = 0; k < kChains; ++k) chains[k] = hn::Load(floats, values + 16 * k);
  for (size_t i = 0; i < rounds; ++i) {
    HWY_UNROLL(24)
    for (auto& chain : chains) chain = hn::MulAdd(hn::Max(chain, other), one, other);
  }
  for (size_t k = 0; k < kChains; ++k) hn::Store(chains[k], floats, values + 16 * k);
  asm volatile("" : : "g"(values) : "memory");  // keeps the compiler from removing the work
  return rounds * kChains * hn::Lanes(floats);
}

}  // namespace HWY_NAMESPACE
}  // namespace dotresize
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace dotresize {

HWY_EXPORT(max_add);

size_t run_max_add_limit(size_t rounds) { return HWY_DYNAMIC_DISPATCH(max_add)(rounds); }

}  // namespace dotresize
#endif
