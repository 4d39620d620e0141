#pragma once

#include <cstddef>

namespace dotresize {

/// Channels of a strip. A tile of the cost belongs to two strips: one is its rows, one its columns.
inline constexpr size_t kL1StripWidth = 32;
/// The tokens of a strip are packed with zeros up to a multiple of this.
inline constexpr size_t kL1TokenStep = 4;

/// Neighbouring channels, packed token by token: channel c of token t is
/// values[t * kL1StripWidth + c]. All are aligned to 64 bytes.
struct L1Strip {
  const float* values;
  const double* sums;      ///< Σ_t x_t by channel
  const double* abs_sums;  ///< Σ_t |x_t| by channel
};

/// The sums that L1Strip wants.
void l1_strip_sums(const float* values, size_t tokens, double* sums, double* abs_sums);

// A tile is kL1StripWidth rows of kL1StripWidth float64 sums, aligned to 64 bytes:
// tile[r * kL1StripWidth + c] belongs to channel r of the rows and channel c of the columns. First
// it collects the sums of maxima, as many tokens at a time as stay in the caches, then these become
// distances.
//
// All of it runs on the widest vectors that the processor has; every pair is summed in the same
// order on all of them, so that the result is the same, bit for bit.
inline constexpr size_t kL1TileSize = kL1StripWidth * kL1StripWidth;

/// tile[r, c] += Σ_t max(rows[t, r], columns[t, c]). tokens: a multiple of kL1TokenStep.
void add_l1_maxima(const float* rows, const float* columns, size_t tokens, double* tile);

/// tile[r, c] = Σ_t |rows[t, r] − columns[t, c]| of a tile that holds the maxima of the same
/// tokens. Relative error <= 1e-6 for at most 2048 of them (see the .cpp file); channels that are
/// equal are at a distance of exactly 0. `above_diagonal`: rows and columns are one strip, and c <
/// r is 0.
void l1_distances_from_maxima(const L1Strip& rows, const L1Strip& columns, size_t tokens,
                              bool above_diagonal, double* tile);

/// Adds the first rows and columns of a tile to the cost at `cost`, whose rows are `stride` apart,
/// after rounding them: to what is left of them when `shift` has been added and subtracted.
void add_l1_tile(const double* tile, size_t rows, size_t columns, double shift, double* cost,
                 size_t stride);

}  // namespace dotresize
