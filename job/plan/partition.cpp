#include "job/plan/partition.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace dotresize {
namespace {

/// For every start, the fewest ranges of sum <= bound that cover the rest; n+1 if one cost alone
/// is above the bound. Taking as much as fits is optimal.
std::vector<std::size_t> ranges_needed(const std::vector<double>& prefix, double bound) {
  const std::size_t n = prefix.size() - 1;
  std::vector<std::size_t> needed(n + 1, 0);
  std::size_t end = n;
  for (std::size_t start = n; start-- > 0;) {
    while (end > start && prefix[end] - prefix[start] > bound) --end;
    needed[start] = end == start ? n + 1 : std::min(n + 1, 1 + needed[end]);
  }
  return needed;
}

/// The smallest bound, to the last bit, that `parts` ranges can keep.
double smallest_bound(const std::vector<double>& prefix, std::size_t parts) {
  double too_small = -1.0;
  double enough = prefix.back();
  while (true) {
    const double middle = too_small + (enough - too_small) / 2;
    if (middle <= too_small || middle >= enough) return enough;
    (ranges_needed(prefix, middle)[0] <= parts ? enough : too_small) = middle;
  }
}

/// What each of `parts` ranges of costs[start..) would get in the best of cases: a cost above that
/// has a range to itself, the others share the remaining ranges.
double fair_share(const std::vector<double>& costs, std::size_t start, std::size_t parts) {
  double fair = std::numeric_limits<double>::infinity();
  while (true) {
    double shared = 0.0;
    std::size_t ranges = parts;
    for (std::size_t i = start; i < costs.size(); ++i) {
      if (costs[i] > fair && ranges > 1) {
        --ranges;
      } else {
        shared += costs[i];
      }
    }
    const double next = shared / static_cast<double>(ranges);
    if (!(next < fair)) return fair;
    fair = next;
  }
}

}  // namespace

std::vector<std::size_t> balanced_partition(const std::vector<double>& costs, std::size_t parts) {
  const std::size_t n = costs.size();
  std::vector<double> prefix(n + 1, 0.0);
  std::partial_sum(costs.begin(), costs.end(), prefix.begin() + 1);
  const double bound = smallest_bound(prefix, parts);
  const std::vector<std::size_t> needed = ranges_needed(prefix, bound);

  std::vector<std::size_t> boundaries = {0};
  for (std::size_t left = parts - 1; left > 0; --left) {
    const std::size_t start = boundaries.back();
    const double fair = fair_share(costs, start, left + 1);
    std::size_t best = n;
    // Ends that keep the bound here and leave each later range something that it can take.
    for (std::size_t end = start + 1; end + left <= n; ++end) {
      if (prefix[end] - prefix[start] > bound) break;
      if (needed[end] > left) continue;
      const auto off = [&](std::size_t e) { return std::abs(prefix[e] - prefix[start] - fair); };
      if (best == n || off(end) < off(best)) best = end;
    }
    boundaries.push_back(best);
  }
  boundaries.push_back(n);
  return boundaries;
}

}  // namespace dotresize
