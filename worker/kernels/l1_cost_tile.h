#pragma once

#include <cstddef>

namespace dotresize {

/// Channels of a panel. A panel is a block of tokens of kL1PanelWidth neighbouring channels, packed
/// token by token: panel[t * kL1PanelWidth + c].
inline constexpr size_t kL1PanelWidth = 32;

/// tile[r * kL1PanelWidth + c] = Σ_t |rows[t, r] − columns[t, c]| over `tokens` tokens of two
/// panels, aligned to 64 bytes. Runs on the widest vectors that the processor has; every pair is
/// summed token by token, so that the result is the same on all of them, bit for bit.
void l1_cost_tile(const float* rows, const float* columns, size_t tokens, double* tile);

}  // namespace dotresize
