#pragma once

#include <cstddef>

namespace dotresize {

/// What no l1 cost by maxima can exceed: one maximum and one addition (as fma) for each pair, on
/// the widest vectors that the processor has, with all operands in registers. Returns the number of
/// pairs that were done.
size_t run_max_add_limit(size_t rounds);

}  // namespace dotresize
