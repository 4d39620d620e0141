#pragma once

#include <cstddef>

namespace dotresize {

/// Runs the upper limit of an l1 cost by maxima (l1_cost_tile.cpp): one maximum and one addition
/// (as fma) for each pair, on the processor's widest vectors, with all operands in registers. Runs
/// on the calling thread only. Returns the number of pairs done, about 400 a round.
size_t run_max_add_limit(size_t rounds);

}  // namespace dotresize
