#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace dotresize {

/// The sizes that a part of a model can have, from the largest down, and by how much each is
/// predicted to raise the loss.
struct LossCurve {
  std::vector<int64_t> parameters;  ///< descending
  std::vector<double> rises;        ///< as many, of the loss of a token; finite
};

/// A corner of the lower convex hull of a curve, behind the first size.
struct HullCorner {
  std::size_t size = 0;  ///< index in the curve
  double price = 0.0;    ///< rise for each parameter that goes on the way from the corner before
};

/// Prices ascend. Throws std::invalid_argument for a curve that is none.
std::vector<HullCorner> lower_hull(const LossCurve& curve);

/// Of each curve the index of a size, such that all parts together have `parameters` at most. From
/// the largest sizes on, the edge of a lower convex hull comes next that is predicted to raise the
/// loss least for each parameter that it saves: an expensive step does not hide cheap ones behind
/// it. The last edge is taken as far as needed, or whole, whichever is predicted to be better once
/// the surplus has been given back, step by step, where it lowers the loss most. Among equal edges
/// the first part's come first. Deterministic. Throws std::invalid_argument if the smallest sizes
/// have more, and for curves that are none.
std::vector<std::size_t> allocate_by_loss(const std::vector<LossCurve>& curves, int64_t parameters);

}  // namespace dotresize
