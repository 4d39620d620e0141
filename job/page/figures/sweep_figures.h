#pragma once

#include <vector>

#include "job/page/page.h"
#include "job/page/stored_sweep.h"

namespace dotresize {

/// Figures of perplexity over net size, with the Pareto front, and over each numeric axis but the
/// target. Empty if no job is done.
std::vector<Figure> sweep_figures(const StoredSweep& sweep);

}  // namespace dotresize
