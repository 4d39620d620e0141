#pragma once

#include <vector>

#include "job/page/sweep_page.h"

namespace dotresize {

/// Perplexity over net size with the Pareto front, and over each axis of numbers but the target.
/// None if no job is done.
std::vector<Figure> sweep_figures(const StoredSweep& sweep);

}  // namespace dotresize
