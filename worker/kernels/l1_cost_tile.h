#pragma once

#include <cstddef>

namespace dotresize {

/// Channels of a panel, and of the strip of a panel that are a tile's columns.
inline constexpr size_t kL1PanelWidth = 96;
inline constexpr size_t kL1StripWidth = 32;
/// Rows that are computed together: a tile's number of rows is rounded up to a multiple of it.
inline constexpr size_t kL1CellRows = 6;
/// A block of tokens is packed with zeros up to a multiple of this.
inline constexpr size_t kL1TokenStep = 4;

/// A block of tokens of neighbouring channels, packed token by token: channel c of token t is
/// values[t * kL1PanelWidth + c]. `values` is aligned to 64 bytes.
struct L1Channels {
  const float* values;
  const double* sums;      ///< Σ_t x_t by channel
  const double* abs_sums;  ///< Σ_t |x_t| by channel
};

/// The sums that L1Channels wants, of the kL1PanelWidth channels of a panel.
void l1_channel_sums(const float* panel, size_t tokens, double* sums, double* abs_sums);

/// tile[r * kL1StripWidth + c] = Σ_t |rows[t, r] − columns[t, c]| for r in 0 .. row_count-1,
/// rounded up to whole cells, and the columns c > r − diagonal; 0 for the others. tokens: at most
/// 512, a multiple of kL1TokenStep. Relative error <= 1e-6 (see the .cpp file); channels that are
/// equal are at a distance of exactly 0. `tile` is aligned to 64 bytes and holds kL1PanelWidth
/// rows.
///
/// Runs on the widest vectors that the processor has; every pair is summed in the same order on all
/// of them, so that the result is the same, bit for bit.
void l1_cost_tile(const L1Channels& rows, const L1Channels& columns, size_t tokens,
                  size_t row_count, ptrdiff_t diagonal, double* tile);

/// Adds the first rows and columns of a tile to the cost at `cost`, whose rows are `stride` apart;
/// the tile then holds the new values.
void add_l1_tile(double* tile, size_t rows, size_t columns, double* cost, size_t stride);

}  // namespace dotresize
