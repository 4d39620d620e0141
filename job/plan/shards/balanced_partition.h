#pragma once

#include <cstddef>
#include <vector>

namespace dotresize {

/// Cuts costs[0..n) into `parts` contiguous, non-empty ranges whose largest sum is as small as
/// possible and, given that, whose sums are near each other. Returns parts+1 ascending boundaries
/// from 0 to n. Needs 1 <= parts <= n and finite costs >= 0. Deterministic.
std::vector<std::size_t> balanced_partition(const std::vector<double>& costs, std::size_t parts);

}  // namespace dotresize
