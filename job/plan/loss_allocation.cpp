#include "job/plan/loss_allocation.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <stdexcept>

namespace dotresize {
namespace {

/// From one size to the next smaller one.
struct Step {
  std::size_t curve = 0;
  int64_t saved = 0;   ///< parameters
  double price = 0.0;  ///< rise of the loss for each of them
};

void check(const LossCurve& curve) {
  const bool finite =
      std::ranges::all_of(curve.rises, [](double rise) { return std::isfinite(rise); });
  const bool descends =
      std::ranges::adjacent_find(curve.parameters, std::less_equal<>()) == curve.parameters.end();
  if (curve.parameters.empty() || curve.parameters.size() != curve.rises.size() || !finite ||
      !descends) {
    throw std::invalid_argument(
        "no curve of the loss over sizes: they must descend, and each have "
        "a finite rise");
  }
}

/// Steps of one price: an edge of the hull.
struct Edge {
  std::size_t steps = 0;
  int64_t saved = 0;
  double rise = 0.0;

  double price() const { return rise / static_cast<double>(saved); }
};

/// Ascending in their price.
std::vector<Edge> hull_of(const LossCurve& curve) {
  std::vector<Edge> edges;
  for (std::size_t i = 1; i < curve.parameters.size(); ++i) {
    Edge edge{1, curve.parameters[i - 1] - curve.parameters[i],
              curve.rises[i] - curve.rises[i - 1]};
    while (!edges.empty() && edges.back().price() >= edge.price()) {
      edge.steps += edges.back().steps;
      edge.saved += edges.back().saved;
      edge.rise += edges.back().rise;
      edges.pop_back();
    }
    edges.push_back(edge);
  }
  return edges;
}

void add_steps(const LossCurve& curve, std::size_t index, std::vector<Step>& steps) {
  std::size_t size = 1;
  for (const Edge& edge : hull_of(curve)) {
    for (std::size_t step = 0; step < edge.steps; ++step, ++size) {
      steps.push_back({index, curve.parameters[size - 1] - curve.parameters[size], edge.price()});
    }
  }
}

}  // namespace

std::vector<HullCorner> lower_hull(const LossCurve& curve) {
  check(curve);
  std::vector<HullCorner> corners;
  std::size_t size = 0;
  for (const Edge& edge : hull_of(curve)) corners.push_back({size += edge.steps, edge.price()});
  return corners;
}

std::vector<std::size_t> allocate_by_loss(const std::vector<LossCurve>& curves,
                                          int64_t parameters) {
  std::vector<Step> steps;
  int64_t total = 0;
  for (std::size_t index = 0; index < curves.size(); ++index) {
    check(curves[index]);
    total += curves[index].parameters.front();
    add_steps(curves[index], index, steps);
  }
  std::ranges::stable_sort(steps, {}, &Step::price);
  std::vector<std::size_t> chosen(curves.size(), 0);
  for (const Step& step : steps) {
    if (total <= parameters) return chosen;
    total -= step.saved;
    ++chosen[step.curve];
  }
  if (total <= parameters) return chosen;
  throw std::invalid_argument("the smallest sizes have more parameters than there may be");
}

}  // namespace dotresize
