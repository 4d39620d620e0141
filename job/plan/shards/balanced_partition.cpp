#include "job/plan/shards/balanced_partition.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "base/process/work_budget.h"

namespace dotresize {
namespace {

/// Fewest ranges of sum <= bound that cover the costs from each start on; n+1 if one cost alone is
/// above the bound. Each range takes as much as fits, which is optimal.
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

/// Share of costs[start..) that each of `parts` ranges gets in the best case. A cost above that
/// share has a range to itself, and the others share the remaining ranges.
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
  // Smallest bound, to the last bit, that `parts` ranges can keep.
  double too_small = -1.0;
  double bound = prefix.back();
  while (true) {
    const double middle = too_small + (bound - too_small) / 2;
    if (middle <= too_small || middle >= bound) break;
    (ranges_needed(prefix, middle)[0] <= parts ? bound : too_small) = middle;
  }
  const std::vector<std::size_t> needed = ranges_needed(prefix, bound);

  std::vector<std::size_t> boundaries = {0};
  for (std::size_t left = parts - 1; left > 0; --left) {
    WorkBudget::check();
    const std::size_t start = boundaries.back();
    const double fair = fair_share(costs, start, left + 1);
    std::size_t best = n;
    // Consider only ends that keep the bound here and leave each later range something to take.
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
