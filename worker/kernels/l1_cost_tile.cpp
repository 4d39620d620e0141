#include "worker/kernels/l1_cost_tile.h"

#include <algorithm>

// Vectors of unknown length cannot be kept in arrays. Processors with such vectors use NEON
// instead.
#define HWY_DISABLED_TARGETS (HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_RVV)
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "worker/kernels/l1_cost_tile.cpp"
#include <hwy/cache_control.h>
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

// D = Σ|a − b| = 2·Σ max(a, b) − Σa − Σb costs a maximum and an addition for each pair; |a − b|
// takes one more subtraction. The additions are fma(m, 1, sum), which rounds like an addition and
// leaves a processor's other adders to the maxima. Σa and Σb are computed once for each channel, in
// float64. The price is cancellation in the subtraction:
//
//   S = Σ max(a, b),  |max(a, b)| <= (|a| + |b| + |a − b|) / 2,  r = (Σ|a| + Σ|b|) / D
//   an error of ε·Σ|max| in S is one of 2·ε·Σ|max| / D <= ε·(1 + r) relative to D.
//
// For independent channels of mean zero r is about 1.4. It is large if both channels are far from
// zero on the same side, or nearly equal. A cell (kCellRows × kL1StripWidth pairs) with an r above
// kMaxRatio is summed again directly, as Σ|a − b|.
//
// Order of a sum: 4 terms pairwise, 8 such fours one after another, two of these chains, then
// float64. With u = 2^-24, ε is
//   * at most (2 + 7 + 1)·u, whatever the terms. For Σ|a − b|, with r = 0 and one more rounding
//     for the subtraction, it is always at most 11·u = 6.6e-7;
//   * as a standard deviation, 0.7·u for 64 tokens, 0.23·u for 512 and less for more, if rounding
//     errors are independent: each addition with a result s errs by some 0.4·u·s;
//   * at most 3.1·u if all tokens, and so their rounding errors, are equal: fours are exact, a
//     chain of 8 of them errs by at most u·(4·4 + 2·2)/8, and joining two chains by u/2.
// With r <= 4, (1 + r)·ε is 1.2·u = 7e-8 for 512 tokens, and 15.5·u = 9.3e-7 for equal ones.

HWY_BEFORE_NAMESPACE();
namespace dotresize {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using Floats = hn::CappedTag<float, kL1StripWidth / 2>;
using Doubles = hn::CappedTag<double, kL1StripWidth / 4>;
using Vector = hn::Vec<Floats>;

constexpr double kMaxRatio = 4.0;
constexpr size_t kChainTokens = 32;
constexpr size_t kDoublesInLine = 8;  // size of a cache line on most processors

// A register tile is kCellRows channels by kColumns vectors of channels. Its sums, the columns of
// kL1TokenStep tokens and a few temporaries fill the registers.
constexpr size_t kCellRows = 8;
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

using RegisterTile = Vector[kCellRows][kColumns];

/// Computes Σ of the terms of at most kChainTokens tokens.
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
    const float* row = rows + t * kL1StripWidth;
    Vector column[kL1TokenStep][kColumns];
    for (size_t step = 0; step < kL1TokenStep; ++step) {
      for (size_t c = 0; c < kColumns; ++c) {
        column[step][c] = hn::Load(floats, columns + (t + step) * kL1StripWidth + c * lanes);
      }
    }
    for (size_t r = 0; r < kCellRows; ++r) {
      const Vector row0 = hn::Set(floats, row[r]);
      const Vector row1 = hn::Set(floats, row[r + kL1StripWidth]);
      const Vector row2 = hn::Set(floats, row[r + 2 * kL1StripWidth]);
      const Vector row3 = hn::Set(floats, row[r + 3 * kL1StripWidth]);
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

/// Adds Σ of the terms of at most two chains of tokens to the rows of a cell.
template <class Term>
HWY_INLINE void add_cell(const float* rows, const float* columns, size_t tokens, double* cell) {
  const size_t lanes = hn::Lanes(Floats());
  for (size_t c = 0; c < kL1StripWidth; c += kColumns * lanes) {
    RegisterTile sums;
    sum_chain<Term>(rows, columns + c, std::min(tokens, kChainTokens), sums);
    if (tokens > kChainTokens) {
      constexpr size_t kSkip = kChainTokens * kL1StripWidth;
      RegisterTile more;
      sum_chain<Term>(rows + kSkip, columns + kSkip + c, tokens - kChainTokens, more);
      for (size_t r = 0; r < kCellRows; ++r) {
        for (size_t v = 0; v < kColumns; ++v) sums[r][v] = hn::Add(sums[r][v], more[r][v]);
      }
    }
    for (size_t r = 0; r < kCellRows; ++r) {
      for (size_t v = 0; v < kColumns; ++v) {
        add_in_float64(sums[r][v], cell + r * kL1StripWidth + c + v * lanes);
      }
    }
  }
}

/// Adds Σ of the terms to the first `row_count` rows of a tile. Takes two chains of tokens at a
/// time for all rows, so that these tokens stay in the first-level cache.
template <class Term>
HWY_INLINE void add_terms(const float* rows, const float* columns, size_t tokens, size_t row_count,
                          double* tile) {
  for (size_t t = 0; t < tokens; t += 2 * kChainTokens) {
    const size_t offset = t * kL1StripWidth;
    const size_t count = std::min(2 * kChainTokens, tokens - t);
    for (size_t r = 0; r < row_count; r += kCellRows) {
      add_cell<Term>(rows + offset + r, columns + offset, count, tile + r * kL1StripWidth);
    }
  }
}

void add_maxima(const float* rows, const float* columns, size_t tokens, double* tile) {
  add_terms<Maximum>(rows, columns, tokens, kL1StripWidth, tile);
}

/// Turns Σ max into D in the rows of a cell; 0 if c < first_wanted + r. Returns false if a pair's
/// sums cancel too much or are not finite.
HWY_INLINE bool distances_of_cell(const L1Strip& rows, const L1Strip& columns, size_t first_row,
                                  double first_wanted, double* cell) {
  const Doubles doubles;
  const size_t lanes = hn::Lanes(doubles);
  const auto largest_ratio = hn::Set(doubles, kMaxRatio);
  auto excess = hn::Zero(doubles);
  for (size_t r = 0; r < kCellRows; ++r) {
    const auto sum = hn::Set(doubles, rows.sums[first_row + r]);
    const auto abs_sum = hn::Set(doubles, rows.abs_sums[first_row + r]);
    const auto bound = hn::Set(doubles, first_wanted + static_cast<double>(r));
    for (size_t c = 0; c < kL1StripWidth; c += lanes) {
      double* values = cell + r * kL1StripWidth + c;
      const auto wanted = hn::Ge(hn::Iota(doubles, static_cast<double>(c)), bound);
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

void distances_from_maxima(const L1Strip& rows, const L1Strip& columns, size_t tokens,
                           bool above_diagonal, double* tile) {
  for (size_t r = 0; r < kL1StripWidth; r += kCellRows) {
    double* cell = tile + r * kL1StripWidth;
    const double first_wanted = above_diagonal ? static_cast<double>(r + 1) : -HUGE_VAL;
    if (distances_of_cell(rows, columns, r, first_wanted, cell)) continue;
    std::fill_n(cell, kCellRows * kL1StripWidth, 0.0);
    add_terms<Distance>(rows.values + r, columns.values, tokens, kCellRows, cell);
    if (!above_diagonal) continue;
    for (size_t i = 0; i < kCellRows; ++i) std::fill_n(cell + i * kL1StripWidth, r + i, 0.0);
  }
}

void strip_sums(const float* values, size_t tokens, double* sums, double* abs_sums) {
  constexpr size_t kVectors = 4;  // side by side, to hide the latency of additions
  const Doubles doubles;
  const hn::Rebind<float, Doubles> as_many_floats;
  const size_t lanes = hn::Lanes(doubles);
  for (size_t c = 0; c < kL1StripWidth; c += kVectors * lanes) {
    hn::Vec<Doubles> sum[kVectors];
    hn::Vec<Doubles> abs_sum[kVectors];
    for (size_t v = 0; v < kVectors; ++v) sum[v] = abs_sum[v] = hn::Zero(doubles);
    for (size_t t = 0; t < tokens; ++t) {
      for (size_t v = 0; v < kVectors; ++v) {
        const float* token = values + t * kL1StripWidth + c + v * lanes;
        const auto value = hn::PromoteTo(doubles, hn::Load(as_many_floats, token));
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

void add_tile(const double* tile, size_t rows, size_t columns, double shift, double* cost,
              size_t stride) {
  constexpr size_t kRowsAhead = 8;
  const Doubles doubles;
  const size_t lanes = hn::Lanes(doubles);
  const auto shifts = hn::Set(doubles, shift);
  for (size_t r = 0; r < rows; ++r) {
    const double* sums = tile + r * kL1StripWidth;
    double* total = cost + r * stride;
    for (size_t c = 0; c < columns && r + kRowsAhead < rows; c += kDoublesInLine) {
      hwy::Prefetch(total + kRowsAhead * stride + c);
    }
    size_t c = 0;
    for (; c + lanes <= columns; c += lanes) {
      const auto sum = hn::Sub(hn::Add(hn::Load(doubles, sums + c), shifts), shifts);
      hn::StoreU(hn::Add(hn::LoadU(doubles, total + c), sum), doubles, total + c);
    }
    for (; c < columns; ++c) total[c] += (sums[c] + shift) - shift;
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace dotresize
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace dotresize {

HWY_EXPORT(strip_sums);
HWY_EXPORT(add_maxima);
HWY_EXPORT(distances_from_maxima);
HWY_EXPORT(add_tile);

void l1_strip_sums(const float* values, size_t tokens, double* sums, double* abs_sums) {
  HWY_DYNAMIC_DISPATCH(strip_sums)(values, tokens, sums, abs_sums);
}

void add_l1_maxima(const float* rows, const float* columns, size_t tokens, double* tile) {
  HWY_DYNAMIC_DISPATCH(add_maxima)(rows, columns, tokens, tile);
}

void l1_distances_from_maxima(const L1Strip& rows, const L1Strip& columns, size_t tokens,
                              bool above_diagonal, double* tile) {
  HWY_DYNAMIC_DISPATCH(distances_from_maxima)(rows, columns, tokens, above_diagonal, tile);
}

void add_l1_tile(const double* tile, size_t rows, size_t columns, double shift, double* cost,
                 size_t stride) {
  HWY_DYNAMIC_DISPATCH(add_tile)(tile, rows, columns, shift, cost, stride);
}

}  // namespace dotresize
#endif
