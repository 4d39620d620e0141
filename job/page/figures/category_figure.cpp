#include "job/page/figures/category_figure.h"

#include <fmt/format.h>

#include <algorithm>

namespace dotresize {
namespace {

/// Text such as "184 (layers.0.mlp) to 227 (embed), mean 205".
std::string span_of(const Series& series, const std::vector<std::string>& names) {
  const auto [low, high] = std::ranges::minmax(series.points, {}, &Point::y);
  if (low.y == high.y) return short_number(low.y);
  double sum = 0.0;
  for (const Point& point : series.points) sum += point.y;
  const auto name = [&](const Point& point) { return names[static_cast<size_t>(point.x)]; };
  return fmt::format("{} ({}) to {} ({}), mean {}", short_number(low.y), name(low),
                     short_number(high.y), name(high),
                     short_number(sum / static_cast<double>(series.points.size())));
}

}  // namespace

Figure category_figure(const Figure& about, const std::vector<std::string>& categories,
                       const std::vector<Series>& all) {
  Figure figure = about;
  figure.categories = categories;
  for (const Series& series : all) {
    if (series.points.empty()) continue;
    figure.series.push_back(series);
    figure.text += fmt::format("{}{}: {}", figure.text.empty() ? "" : "; ", series.name,
                               span_of(series, categories));
  }
  figure.text += ".";
  figure.csv = csv_of(figure);
  return figure;
}

}  // namespace dotresize
