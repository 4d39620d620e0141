#include "job/page/figures/sweep_figures.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "base/text/human_text.h"
#include "base/text/parse_number.h"

namespace dotresize {
namespace {

constexpr size_t kMaxCurves = 8;  // curves in one figure
constexpr char kPerplexity[] = "perplexity";

/// "dotresize, lambda 0.1, size 0.8", without the axes in `left_out`.
std::string described(const StoredSweep& sweep, const StoredVariant& variant,
                      const std::vector<size_t>& left_out) {
  std::string text;
  for (size_t i = 0; i < sweep.axes.size(); ++i) {
    if (variant.values[i].empty() || std::ranges::find(left_out, i) != left_out.end()) continue;
    const std::string& key = sweep.axes[i];
    const std::string name = key == "method.name" ? "" : key.substr(key.rfind('.') + 1) + " ";
    text += fmt::format("{}{}{}", text.empty() ? "" : ", ", name, variant.values[i]);
  }
  return text;
}

/// Axes whose values are names, not numbers. Axes of size keys are left out.
std::vector<size_t> named_axes(const StoredSweep& sweep) {
  std::vector<size_t> named;
  for (size_t i = 0; i < sweep.axes.size(); ++i) {
    const bool has_name = std::ranges::any_of(sweep.variants, [&](const StoredVariant& variant) {
      return !variant.values[i].empty() && !parse_number<double>(variant.values[i]);
    });
    if (has_name && !is_size_key(sweep.axes[i])) named.push_back(i);
  }
  return named;
}

std::vector<size_t> other_axes(const StoredSweep& sweep, const std::vector<size_t>& axes) {
  std::vector<size_t> others;
  for (size_t i = 0; i < sweep.axes.size(); ++i) {
    if (std::ranges::find(axes, i) == axes.end()) others.push_back(i);
  }
  return others;
}

std::vector<const StoredVariant*> done_variants(const StoredSweep& sweep) {
  std::vector<const StoredVariant*> done;
  for (const StoredVariant& variant : sweep.variants) {
    if (variant.done()) done.push_back(&variant);
  }
  return done;
}

Point size_point(const StoredVariant& variant, std::string label) {
  return {100.0 * variant.bytes_fraction, variant.perplexity, std::move(label)};
}

/// Series for each combination of names (method, metric, sharing), for the front and for the dense
/// model.
std::vector<Series> size_series(const StoredSweep& sweep,
                                const std::vector<const StoredVariant*>& done) {
  const std::vector<size_t> named = named_axes(sweep);
  const std::vector<size_t> others = other_axes(sweep, named);
  std::map<std::string, Series> by_name;
  Series front{.name = "Pareto front", .marks = false};
  for (const StoredVariant* variant : done) {
    const std::string name = described(sweep, *variant, others);
    Series& series = by_name[name];
    series.name = name.empty() ? "jobs" : name;
    series.line = false;
    series.points.push_back(size_point(*variant, described(sweep, *variant, named)));
    if (variant->pareto)
      front.points.push_back(size_point(*variant, described(sweep, *variant, {})));
  }
  std::ranges::sort(front.points, {}, &Point::x);
  std::vector<Series> all;
  all.reserve(by_name.size() + 2);
  for (auto& [name, series] : by_name) all.push_back(std::move(series));
  all.push_back(std::move(front));
  if (sweep.dense_perplexity) {
    all.push_back(
        {.name = "dense model", .points = {{100.0, *sweep.dense_perplexity}}, .line = false});
  }
  return all;
}

Figure size_figure(const StoredSweep& sweep, const std::vector<const StoredVariant*>& done) {
  Figure figure{.id = "perplexity-size",
                .title = "Perplexity over net size",
                .x = {.title = "bytes of the model (% of the dense model's)"},
                .y = {.title = kPerplexity}};
  figure.series = size_series(sweep, done);
  figure.y.log = spans_orders(figure.series, &Point::y);
  figure.csv = csv_of(figure);
  const auto front = std::ranges::find(figure.series, "Pareto front", &Series::name);
  figure.text = "On the front, by size: ";
  for (const Point& point : front->points) {
    if (&point != &front->points.front()) figure.text += "; ";
    figure.text +=
        fmt::format("{} at {:.1f} % ({})", format_perplexity(point.y), point.x, point.label);
  }
  if (sweep.dense_perplexity) {
    figure.text +=
        fmt::format("; the dense model has {}", format_perplexity(*sweep.dense_perplexity));
  }
  figure.text += ".";
  return figure;
}

/// Curves of perplexity over the numbers of one axis, one for each combination of the other axes'
/// values with at least two numbers. Sorted by least perplexity.
std::vector<Series> curves_over(const StoredSweep& sweep, size_t axis,
                                const std::vector<const StoredVariant*>& done) {
  std::map<std::string, Series> curves;
  for (const StoredVariant* variant : done) {
    const auto value = parse_number<double>(variant->values[axis]);
    if (!value || !std::isfinite(*value)) continue;
    const std::string others = described(sweep, *variant, {axis});
    Series& curve = curves[others];
    curve.name = others.empty() ? kPerplexity : others;
    curve.points.push_back({*value, variant->perplexity});
  }
  std::vector<Series> all;
  for (auto& [name, curve] : curves) {
    if (curve.points.size() < 2) continue;
    std::ranges::sort(curve.points, {}, &Point::x);
    all.push_back(std::move(curve));
  }
  const auto least = [](const Series& curve) {
    return std::ranges::min(curve.points, {}, &Point::y).y;
  };
  std::ranges::sort(all, {}, least);
  return all;
}

std::string curve_text(const std::vector<Series>& curves, const std::string& name, size_t all) {
  std::string text;
  if (curves.size() < all) {
    text = fmt::format("{} of {} curves are shown, those of least perplexity; the data have all. ",
                       curves.size(), all);
  }
  text += fmt::format("Least and most over {}: ", name);
  for (const Series& curve : curves) {
    const Point least = std::ranges::min(curve.points, {}, &Point::y);
    const Point most = std::ranges::max(curve.points, {}, &Point::y);
    text += fmt::format("{}{}: {} at {} to {} at {}", &curve == &curves.front() ? "" : "; ",
                        curve.name, format_perplexity(least.y), short_number(least.x),
                        format_perplexity(most.y), short_number(most.x));
  }
  return text + ".";
}

/// Converts to an id of letters and '-'.
std::string plain(const std::string& key) {
  std::string id;
  for (const char c : key) id += (c >= 'a' && c <= 'z') ? c : '-';
  return id;
}

std::optional<Figure> axis_figure(const StoredSweep& sweep, size_t axis,
                                  const std::vector<const StoredVariant*>& done) {
  const std::string& key = sweep.axes[axis];
  if (is_size_key(key)) return std::nullopt;
  std::vector<Series> curves = curves_over(sweep, axis, done);
  if (curves.empty()) return std::nullopt;
  const std::string name = key.substr(key.rfind('.') + 1);
  Figure figure{.id = "perplexity-" + plain(key),
                .title = "Perplexity over " + name,
                .x = {.title = name == "samples" ? "calibration samples" : key},
                .y = {.title = kPerplexity},
                .series = curves};
  figure.csv = csv_of(figure);
  if (curves.size() > kMaxCurves) curves.resize(kMaxCurves);
  figure.text = curve_text(curves, name, figure.series.size());
  figure.series = std::move(curves);
  figure.x.log = spans_orders(figure.series, &Point::x);
  figure.y.log = spans_orders(figure.series, &Point::y);
  return figure;
}

}  // namespace

std::vector<Figure> sweep_figures(const StoredSweep& sweep) {
  const std::vector<const StoredVariant*> done = done_variants(sweep);
  if (done.empty()) return {};
  std::vector<Figure> figures = {size_figure(sweep, done)};
  for (size_t i = 0; i < sweep.axes.size(); ++i) {
    if (auto figure = axis_figure(sweep, i, done)) figures.push_back(std::move(*figure));
  }
  return figures;
}

}  // namespace dotresize
