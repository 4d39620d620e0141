#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace dotresize {

/// Sizes that a part of a model can have, from the largest down, with the predicted loss increase
/// at each.
struct LossCurve {
  std::vector<int64_t> sizes;          ///< descending, such as bytes
  std::vector<double> loss_increases;  ///< loss increase of a token at each of these sizes; finite
};

/// Chooses a size of each curve, such that their sum is at most `limit`. Returns the indices of the
/// sizes.
/// Starts at the largest sizes. The next edge of a lower convex hull is always the one with the
/// smallest predicted loss increase for what it saves: an expensive step does not hide cheap ones
/// behind it. The last edge is taken only as far as needed, or whole. The better prediction
/// decides, once the surplus has been given back, step by step, where it lowers the loss most.
/// Among equal edges the first part's come first. Deterministic. Throws std::invalid_argument if
/// the smallest sizes exceed the limit, and for invalid curves.
std::vector<std::size_t> allocate_by_loss(const std::vector<LossCurve>& curves, int64_t limit);

}  // namespace dotresize
