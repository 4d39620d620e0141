#pragma once

#include <cstddef>

namespace dotresize {

/// Channels of a strip. A tile of the cost belongs to two strips, its rows and its columns.
inline constexpr size_t kL1StripWidth = 32;
/// A strip's tokens are padded with zeros to a multiple of this.
inline constexpr size_t kL1TokenStep = 4;

/// Neighbouring channels, packed token by token: channel c of token t is values[t * kL1StripWidth +
/// c]. All arrays are aligned to 64 bytes.
struct L1Strip {
  const float* values;
  const double* sums;      ///< Σ_t x_t by channel
  const double* abs_sums;  ///< Σ_t |x_t| by channel
};

/// Computes the sums of an L1Strip.
void l1_strip_sums(const float* values, size_t tokens, double* sums, double* abs_sums);

// A tile is kL1StripWidth rows of kL1StripWidth float64 sums, aligned to 64 bytes: tile[r *
// kL1StripWidth + c] belongs to channel r of the rows and channel c of the columns. It first
// collects sums of maxima, over as many tokens at a time as fit the caches. These then become
// distances.
//
// Everything runs on the processor's widest vectors. The order of every pair's sum does not depend
// on them, so the result is bitwise the same.
inline constexpr size_t kL1TileSize = kL1StripWidth * kL1StripWidth;

/// tile[r, c] += Σ_t max(rows[t, r], columns[t, c]). tokens: a multiple of kL1TokenStep.
void add_l1_maxima(const float* rows, const float* columns, size_t tokens, double* tile);

/// Turns the maxima in the tile into tile[r, c] = Σ_t |rows[t, r] − columns[t, c]| of the same
/// tokens. Relative error <= 1e-6 for at most 2048 tokens (see the .cpp file); equal channels get a
/// distance of exactly 0. `above_diagonal`: rows and columns are one strip, and entries with c < r
/// become 0.
void l1_distances_from_maxima(const L1Strip& rows, const L1Strip& columns, size_t tokens,
                              bool above_diagonal, double* tile);

/// Adds the first `rows` rows and `columns` columns of a tile to the cost at `cost`, whose rows are
/// `stride` apart. Rounds each sum first by adding and subtracting `shift`.
void add_l1_tile(const double* tile, size_t rows, size_t columns, double shift, double* cost,
                 size_t stride);

}  // namespace dotresize
