#include "job/plan/allocate/loss_allocation.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <iterator>
#include <stdexcept>

namespace dotresize {
namespace {

void check(const LossCurve& curve) {
  const bool finite = std::ranges::all_of(
      curve.loss_increases, [](double loss_increase) { return std::isfinite(loss_increase); });
  const bool descends =
      std::ranges::adjacent_find(curve.sizes, std::less_equal<>()) == curve.sizes.end();
  if (curve.sizes.empty() || curve.sizes.size() != curve.loss_increases.size() || !finite ||
      !descends) {
    throw std::invalid_argument(
        "no curve of the loss over sizes: they must descend, and each have "
        "a finite rise");
  }
}

/// Edge of the hull of a curve: neighbouring steps, each from one size to the next smaller one.
struct Edge {
  std::size_t curve = 0;
  std::size_t steps = 0;
  int64_t saved = 0;
  double loss_increase = 0.0;

  double price() const { return loss_increase / static_cast<double>(saved); }
};

/// Edges of the curve's hull, in ascending order of price.
std::vector<Edge> hull_of(const LossCurve& curve, std::size_t index) {
  std::vector<Edge> edges;
  for (std::size_t i = 1; i < curve.sizes.size(); ++i) {
    Edge edge{index, 1, curve.sizes[i - 1] - curve.sizes[i],
              curve.loss_increases[i] - curve.loss_increases[i - 1]};
    while (!edges.empty() && edges.back().price() >= edge.price()) {
      edge.steps += edges.back().steps;
      edge.saved += edges.back().saved;
      edge.loss_increase += edges.back().loss_increase;
      edges.pop_back();
    }
    edges.push_back(edge);
  }
  return edges;
}

double loss_increase_of(const std::vector<LossCurve>& curves,
                        const std::vector<std::size_t>& chosen) {
  double loss_increase = 0.0;
  for (std::size_t index = 0; index < curves.size(); ++index) {
    loss_increase += curves[index].loss_increases[chosen[index]];
  }
  return loss_increase;
}

/// Gives parts their next larger size as long as there is room. The part that lowers the loss most
/// for its size comes first; of equal parts, the last one.
void give_back(const std::vector<LossCurve>& curves, int64_t room,
               std::vector<std::size_t>& chosen) {
  // Share of the whole loss increase. A step that lowers it by less is worth nothing.
  constexpr double kRounding = 1e-6;
  const double least = kRounding * loss_increase_of(curves, chosen);
  while (true) {
    std::size_t best = curves.size();
    double most = 0.0;
    for (std::size_t index = 0; index < curves.size(); ++index) {
      const auto& [sizes, loss_increases] = curves[index];
      const std::size_t size = chosen[index];
      if (size == 0 || sizes[size - 1] - sizes[size] > room) continue;
      const double gain = loss_increases[size] - loss_increases[size - 1];
      const double worth = gain / static_cast<double>(sizes[size - 1] - sizes[size]);
      if (gain <= least || worth < most) continue;
      most = worth;
      best = index;
    }
    if (best == curves.size()) return;
    const std::size_t size = chosen[best]--;
    room -= curves[best].sizes[size - 1] - curves[best].sizes[size];
  }
}

}  // namespace

std::vector<std::size_t> allocate_by_loss(const std::vector<LossCurve>& curves, int64_t limit) {
  std::vector<Edge> edges;
  int64_t total = 0;
  for (std::size_t index = 0; index < curves.size(); ++index) {
    check(curves[index]);
    total += curves[index].sizes.front();
    std::ranges::copy(hull_of(curves[index], index), std::back_inserter(edges));
  }
  std::ranges::stable_sort(edges, {}, &Edge::price);
  std::vector<std::size_t> chosen(curves.size(), 0);
  auto edge = edges.begin();
  for (; edge != edges.end() && total - edge->saved > limit; ++edge) {
    total -= edge->saved;
    chosen[edge->curve] += edge->steps;
  }
  if (total <= limit) return chosen;
  if (edge == edges.end()) {
    throw std::invalid_argument("the smallest sizes exceed the limit");
  }
  // Compare two ways to take the last edge: only the steps that are needed, or all of them.
  std::vector<std::size_t> whole = chosen;
  whole[edge->curve] += edge->steps;
  give_back(curves, limit - (total - edge->saved), whole);
  const std::vector<int64_t>& sizes = curves[edge->curve].sizes;
  while (total > limit) {
    const std::size_t size = chosen[edge->curve]++;
    total -= sizes[size] - sizes[size + 1];
  }
  give_back(curves, limit - total, chosen);
  return loss_increase_of(curves, whole) <= loss_increase_of(curves, chosen) ? whole : chosen;
}

}  // namespace dotresize
