#include "worker/kernels/l1_cost_tile.h"

#include <algorithm>

// Vectors of unknown length cannot be kept in arrays: NEON serves such processors as well.
#define HWY_DISABLED_TARGETS (HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_RVV)
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "worker/kernels/l1_cost_tile.cpp"
#include <hwy/cache_control.h>
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

// D = Σ|a − b| = 2·Σ max(a, b) − Σa − Σb: a maximum and an addition for each pair, where |a − b|
// takes a subtraction more. The additions are fma(m, 1, sum), which rounds as an addition does and
// leaves a processor's other adders to the maxima. Σa and Σb are taken once for each channel, in
// float64. What cancels in the subtraction is the price:
//
//   S = Σ max(a, b),  |max(a, b)| <= (|a| + |b| + |a − b|) / 2,  r = (Σ|a| + Σ|b|) / D
//   an error of ε·Σ|max| in S is one of 2·ε·Σ|max| / D <= ε·(1 + r) relative to D.
//
// For independent channels of mean zero r is about 1.4. It is large where both channels are far
// from zero on the same side, or nearly equal. A cell (kL1CellRows × kL1StripWidth pairs) with an
// r above kLargestRatio is summed again as it stands, as Σ|a − b|.
//
// Order of a sum: 4 terms pairwise, 8 such fours one after another, two of these chains, then
// float64. With u = 2^-24, ε is
//   * at most (2 + 7 + 1)·u, whatever the terms. For Σ|a − b|, with r = 0 and one rounding more for
//     the subtraction, that is 11·u = 6.6e-7, always;
//   * 0.7·u for 64 tokens, 0.23·u for 512, as a standard deviation where rounding errors are
//     independent: each addition with a result s errs by some 0.4·u·s;
//   * at most 3.1·u where all tokens are equal, hence their rounding errors too: fours are exact,
//     a chain of 8 such errs by at most u·(4·4 + 2·2)/8, joining two chains by u/2.
// With r <= 4, (1 + r)·ε is 1.2·u = 7e-8 for 512 tokens, and 15.5·u = 9.3e-7 for equal ones.

HWY_BEFORE_NAMESPACE();
namespace dotresize {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using Floats = hn::CappedTag<float, kL1StripWidth / 2>;
using Doubles = hn::CappedTag<double, kL1StripWidth / 4>;
using Vector = hn::Vec<Floats>;

constexpr double kLargestRatio = 4.0;
constexpr size_t kChainTokens = 32;
constexpr size_t kDoublesInLine = 8;  // of a cache, on most processors
constexpr size_t kRows = kL1CellRows;

// A register tile is kRows channels by kColumns vectors of channels. Its sums, the columns of
// kL1TokenStep tokens and a few temporaries fill the registers.
#if HWY_TARGET <= HWY_AVX3 || HWY_TARGET == HWY_NEON
constexpr size_t kColumns = 2;
#else
constexpr size_t kColumns = 1;
#endif

struct Maximum {
  static HWY_INLINE Vector of(Vector a, Vector b) { return hn::Max(a, b); }
};
struct Distance {
  static HWY_INLINE Vector of(Vector a, Vector b) { return hn::Abs(hn::Sub(a, b)); }
};

using RegisterTile = Vector[kRows][kColumns];

/// Σ of the terms of at most kChainTokens tokens.
template <class Term>
HWY_INLINE void sum_chain(const float* HWY_RESTRICT rows, const float* HWY_RESTRICT columns,
                          size_t tokens, RegisterTile& sums) {
  const Floats floats;
  const size_t lanes = hn::Lanes(floats);
  const Vector one = hn::Set(floats, 1.0f);
  for (auto& row : sums) {
    for (Vector& sum : row) sum = hn::Zero(floats);
  }
  for (size_t t = 0; t < tokens; t += kL1TokenStep) {
    const float* row = rows + t * kL1PanelWidth;
    Vector column[kL1TokenStep][kColumns];
    for (size_t step = 0; step < kL1TokenStep; ++step) {
      for (size_t c = 0; c < kColumns; ++c) {
        column[step][c] = hn::Load(floats, columns + (t + step) * kL1PanelWidth + c * lanes);
      }
    }
    for (size_t r = 0; r < kRows; ++r) {
      const Vector row0 = hn::Set(floats, row[r]);
      const Vector row1 = hn::Set(floats, row[r + kL1PanelWidth]);
      const Vector row2 = hn::Set(floats, row[r + 2 * kL1PanelWidth]);
      const Vector row3 = hn::Set(floats, row[r + 3 * kL1PanelWidth]);
      for (size_t c = 0; c < kColumns; ++c) {
        const Vector term1 = Term::of(row1, column[1][c]);
        const Vector term3 = Term::of(row3, column[3][c]);
        const Vector pair0 = hn::MulAdd(Term::of(row0, column[0][c]), one, term1);
        const Vector pair2 = hn::MulAdd(Term::of(row2, column[2][c]), one, term3);
        sums[r][c] = hn::MulAdd(hn::MulAdd(pair0, one, pair2), one, sums[r][c]);
      }
    }
  }
}

HWY_INLINE void add_in_float64(Vector sum, double* HWY_RESTRICT total) {
  const Doubles doubles;
  const hn::Rebind<float, Doubles> as_many_floats;
  HWY_ALIGN float values[kL1StripWidth / 2];
  hn::Store(sum, Floats(), values);
  for (size_t i = 0; i < hn::Lanes(Floats()); i += hn::Lanes(doubles)) {
    const auto value = hn::PromoteTo(doubles, hn::Load(as_many_floats, values + i));
    hn::Store(hn::Add(hn::Load(doubles, total + i), value), doubles, total + i);
  }
}

/// Adds Σ of the terms of at most two chains of tokens to a cell's row of register tiles.
template <class Term>
HWY_INLINE void add_cell(const float* rows, const float* columns, size_t tokens, double* cell) {
  const size_t lanes = hn::Lanes(Floats());
  for (size_t c = 0; c < kL1StripWidth; c += kColumns * lanes) {
    RegisterTile sums;
    sum_chain<Term>(rows, columns + c, std::min(tokens, kChainTokens), sums);
    if (tokens > kChainTokens) {
      constexpr size_t kSkip = kChainTokens * kL1PanelWidth;
      RegisterTile more;
      sum_chain<Term>(rows + kSkip, columns + kSkip + c, tokens - kChainTokens, more);
      for (size_t r = 0; r < kRows; ++r) {
        for (size_t v = 0; v < kColumns; ++v) sums[r][v] = hn::Add(sums[r][v], more[r][v]);
      }
    }
    for (size_t r = 0; r < kRows; ++r) {
      for (size_t v = 0; v < kColumns; ++v) {
        add_in_float64(sums[r][v], cell + r * kL1StripWidth + c + v * lanes);
      }
    }
  }
}

/// Adds Σ of the terms of all tokens to the cells of a tile, two chains of tokens of all cells at a
/// time: these tokens stay in the first cache.
template <class Term>
HWY_INLINE void add_cells(const float* rows, const float* columns, size_t tokens, size_t row_count,
                          double* tile) {
  for (size_t t = 0; t < tokens; t += 2 * kChainTokens) {
    const size_t offset = t * kL1PanelWidth;
    const size_t count = std::min(2 * kChainTokens, tokens - t);
    for (size_t r = 0; r < row_count; r += kRows) {
      add_cell<Term>(rows + offset + r, columns + offset, count, tile + r * kL1StripWidth);
    }
  }
}

/// Σ max becomes D for the columns c > r − diagonal, 0 for the others. False where the sums of a
/// pair cancel too much, or are not finite.
HWY_INLINE bool distances_from_maxima(const L1Channels& rows, const L1Channels& columns,
                                      size_t first_row, ptrdiff_t diagonal, double* cell) {
  const Doubles doubles;
  const size_t lanes = hn::Lanes(doubles);
  const auto largest_ratio = hn::Set(doubles, kLargestRatio);
  auto excess = hn::Zero(doubles);
  for (size_t r = 0; r < kRows; ++r) {
    const size_t row = first_row + r;
    const auto sum = hn::Set(doubles, rows.sums[row]);
    const auto abs_sum = hn::Set(doubles, rows.abs_sums[row]);
    const auto bound =
        hn::Set(doubles, static_cast<double>(static_cast<ptrdiff_t>(row) - diagonal));
    for (size_t c = 0; c < kL1StripWidth; c += lanes) {
      double* values = cell + r * kL1StripWidth + c;
      const auto wanted = hn::Gt(hn::Iota(doubles, static_cast<double>(c)), bound);
      const auto maxima = hn::Load(doubles, values);
      const auto distance =
          hn::Sub(hn::Sub(hn::Add(maxima, maxima), sum), hn::Load(doubles, columns.sums + c));
      const auto magnitude = hn::Add(abs_sum, hn::Load(doubles, columns.abs_sums + c));
      const auto safe = hn::Le(magnitude, hn::Mul(largest_ratio, distance));
      excess = hn::Or(excess, hn::IfThenElse(safe, hn::Zero(doubles),
                                             hn::IfThenElseZero(wanted, largest_ratio)));
      hn::Store(hn::IfThenElseZero(wanted, distance), doubles, values);
    }
  }
  return hn::AllTrue(doubles, hn::Eq(excess, hn::Zero(doubles)));
}

void tile_of_channels(const L1Channels& rows, const L1Channels& columns, size_t tokens,
                      size_t row_count, ptrdiff_t diagonal, double* tile) {
  std::fill_n(tile, (row_count + kRows - 1) / kRows * kRows * kL1StripWidth, 0.0);
  add_cells<Maximum>(rows.values, columns.values, tokens, row_count, tile);
  for (size_t r = 0; r < row_count; r += kRows) {
    double* cell = tile + r * kL1StripWidth;
    if (distances_from_maxima(rows, columns, r, diagonal, cell)) continue;
    std::fill_n(cell, kRows * kL1StripWidth, 0.0);
    add_cells<Distance>(rows.values + r, columns.values, tokens, kRows, cell);
  }
}

void channel_sums(const float* panel, size_t tokens, double* sums, double* abs_sums) {
  constexpr size_t kVectors = 4;  // side by side, to hide the latency of an addition
  const Doubles doubles;
  const hn::Rebind<float, Doubles> as_many_floats;
  const size_t lanes = hn::Lanes(doubles);
  for (size_t c = 0; c < kL1PanelWidth; c += kVectors * lanes) {
    hn::Vec<Doubles> sum[kVectors];
    hn::Vec<Doubles> abs_sum[kVectors];
    for (size_t v = 0; v < kVectors; ++v) sum[v] = abs_sum[v] = hn::Zero(doubles);
    for (size_t t = 0; t < tokens; ++t) {
      for (size_t v = 0; v < kVectors; ++v) {
        const float* values = panel + t * kL1PanelWidth + c + v * lanes;
        const auto value = hn::PromoteTo(doubles, hn::Load(as_many_floats, values));
        sum[v] = hn::Add(sum[v], value);
        abs_sum[v] = hn::Add(abs_sum[v], hn::Abs(value));
      }
    }
    for (size_t v = 0; v < kVectors; ++v) {
      hn::Store(sum[v], doubles, sums + c + v * lanes);
      hn::Store(abs_sum[v], doubles, abs_sums + c + v * lanes);
    }
  }
}

void add_tile(double* tile, size_t rows, size_t columns, double* cost, size_t stride) {
  constexpr size_t kRowsAhead = 8;
  const Doubles doubles;
  const size_t lanes = hn::Lanes(doubles);
  for (size_t r = 0; r < rows; ++r) {
    double* sums = tile + r * kL1StripWidth;
    double* total = cost + r * stride;
    for (size_t c = 0; c < columns && r + kRowsAhead < rows; c += kDoublesInLine) {
      hwy::Prefetch(total + kRowsAhead * stride + c);
    }
    size_t c = 0;
    for (; c + lanes <= columns; c += lanes) {
      const auto sum = hn::Add(hn::LoadU(doubles, total + c), hn::Load(doubles, sums + c));
      hn::StoreU(sum, doubles, total + c);
      hn::Store(sum, doubles, sums + c);
    }
    for (; c < columns; ++c) sums[c] = total[c] += sums[c];
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace dotresize
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace dotresize {

HWY_EXPORT(channel_sums);
HWY_EXPORT(tile_of_channels);
HWY_EXPORT(add_tile);

void l1_channel_sums(const float* panel, size_t tokens, double* sums, double* abs_sums) {
  HWY_DYNAMIC_DISPATCH(channel_sums)(panel, tokens, sums, abs_sums);
}

void l1_cost_tile(const L1Channels& rows, const L1Channels& columns, size_t tokens,
                  size_t row_count, ptrdiff_t diagonal, double* tile) {
  HWY_DYNAMIC_DISPATCH(tile_of_channels)(rows, columns, tokens, row_count, diagonal, tile);
}

void add_l1_tile(double* tile, size_t rows, size_t columns, double* cost, size_t stride) {
  HWY_DYNAMIC_DISPATCH(add_tile)(tile, rows, columns, cost, stride);
}

}  // namespace dotresize
#endif
