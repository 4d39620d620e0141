#include "worker/kernels/l1_cost_tile.h"

#include <algorithm>

// Vectors of unknown length cannot be kept in arrays: NEON serves such processors as well.
#define HWY_DISABLED_TARGETS (HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_RVV)
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "worker/kernels/l1_cost_tile.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace dotresize {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using Floats = hn::CappedTag<float, kL1PanelWidth / 2>;
using Vector = hn::Vec<Floats>;

// A register tile is kRows channels by kColumns vectors of channels. Its sums fill the registers.
#if HWY_TARGET <= HWY_AVX3
constexpr size_t kRows = 8;
#else
constexpr size_t kRows = 4;
#endif
constexpr size_t kColumns = 2;

/// Tokens summed in registers before they are added to the tile. Two levels of sums keep the
/// relative error of 512 tokens below 1e-6, also where all terms are equal and rounding errors do
/// not cancel.
constexpr size_t kTokensInRegisters = 32;

/// tile[r, c] += Σ_t |rows[t, r] − columns[t, c]| over at most kTokensInRegisters tokens.
HWY_INLINE void add_register_tile(const float* HWY_RESTRICT rows, const float* HWY_RESTRICT columns,
                                  size_t tokens, float* HWY_RESTRICT tile) {
  const Floats floats;
  const size_t lanes = hn::Lanes(floats);
  Vector sums[kRows][kColumns];
  for (auto& row : sums) {
    for (Vector& sum : row) sum = hn::Zero(floats);
  }
  for (size_t t = 0; t < tokens; ++t) {
    const Vector column0 = hn::Load(floats, columns + t * kL1PanelWidth);
    const Vector column1 = hn::Load(floats, columns + t * kL1PanelWidth + lanes);
    for (size_t r = 0; r < kRows; ++r) {
      const Vector row = hn::Set(floats, rows[t * kL1PanelWidth + r]);
      sums[r][0] = hn::Add(sums[r][0], hn::AbsDiff(row, column0));
      sums[r][1] = hn::Add(sums[r][1], hn::AbsDiff(row, column1));
    }
  }
  for (size_t r = 0; r < kRows; ++r) {
    for (size_t c = 0; c < kColumns; ++c) {
      float* total = tile + r * kL1PanelWidth + c * lanes;
      hn::Store(hn::Add(hn::Load(floats, total), sums[r][c]), floats, total);
    }
  }
}

void tile_of_panels(const float* rows, const float* columns, size_t tokens, float* tile) {
  const size_t step = kColumns * hn::Lanes(Floats());
  std::fill_n(tile, kL1PanelWidth * kL1PanelWidth, 0.0f);
  for (size_t first = 0; first < tokens; first += kTokensInRegisters) {
    const size_t count = std::min(kTokensInRegisters, tokens - first);
    const size_t offset = first * kL1PanelWidth;
    for (size_t c = 0; c < kL1PanelWidth; c += step) {
      for (size_t r = 0; r < kL1PanelWidth; r += kRows) {
        add_register_tile(rows + offset + r, columns + offset + c, count,
                          tile + r * kL1PanelWidth + c);
      }
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace dotresize
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace dotresize {

HWY_EXPORT(tile_of_panels);

void l1_cost_tile(const float* rows, const float* columns, size_t tokens, float* tile) {
  HWY_DYNAMIC_DISPATCH(tile_of_panels)(rows, columns, tokens, tile);
}

}  // namespace dotresize
#endif
