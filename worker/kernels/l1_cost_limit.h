#pragma once

#include <cstddef>

namespace dotresize {

/// Pairs a second that add_l1_cost (l1_cost.h) on the CPU cannot exceed, however good it is:
/// run_max_add_limit on as many threads as it uses, all at once. Measured here and now, the fastest
/// of several runs, which takes a few milliseconds: clocks change, and so does what else runs.
double measure_l1_cost_limit();

/// One run of it: run_max_add_limit(rounds) on each of those threads. Returns the pairs of all.
double run_l1_cost_limit(size_t rounds);

}  // namespace dotresize
