#pragma once

#include <cstddef>

namespace dotresize {

/// What no l1 cost by maxima (l1_cost_tile.cpp) can exceed: one maximum and one addition (as fma)
/// for each pair, on the widest vectors that the processor has, with all operands in registers. On
/// the calling thread alone. Returns the number of pairs that were done, about 400 a round.
size_t run_max_add_limit(size_t rounds);

}  // namespace dotresize
