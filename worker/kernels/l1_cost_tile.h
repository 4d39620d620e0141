#pragma once

#include <cstddef>

namespace dotresize {

/// Channels of a panel. A panel is a block of tokens of kL1PanelWidth neighbouring channels, packed
/// token by token: panel[t * kL1PanelWidth + c].
inline constexpr size_t kL1PanelWidth = 32;

/// tile[r * kL1PanelWidth + c] = Σ_t |rows[t, r] − columns[t, c]| over at most 512 tokens of two
/// panels, in float32 with a relative error <= 1e-6. All three are aligned to 64 bytes. Runs on the
/// widest vectors that the processor has; every pair is summed in the same order on all of them, so
/// that the result is the same, bit for bit.
void l1_cost_tile(const float* rows, const float* columns, size_t tokens, float* tile);

}  // namespace dotresize
