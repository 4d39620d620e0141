#include "job/page/page.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "base/text/encodings.h"

namespace dotresize {
namespace {

constexpr double kLogRatio = 5.0;

std::string csv_of_categories(const Figure& figure) {
  std::string text = csv_cell(figure.x.title);
  for (const Series& series : figure.series) text += "," + csv_cell(series.name);
  text += "\n";
  std::vector<std::map<size_t, double>> columns;
  for (const Series& series : figure.series) {
    auto& column = columns.emplace_back();
    for (const Point& point : series.points) column[static_cast<size_t>(point.x)] = point.y;
  }
  for (size_t i = 0; i < figure.categories.size(); ++i) {
    text += csv_cell(figure.categories[i]);
    for (const auto& column : columns) {
      text += ",";
      if (const auto found = column.find(i); found != column.end()) {
        text += fmt::format("{}", found->second);
      }
    }
    text += "\n";
  }
  return text;
}

}  // namespace

std::string csv_of(const Figure& figure) {
  if (!figure.categories.empty()) return csv_of_categories(figure);
  const bool labels = std::ranges::any_of(figure.series, [](const Series& series) {
    return std::ranges::any_of(series.points,
                               [](const Point& point) { return !point.label.empty(); });
  });
  std::string text = "series," + csv_cell(figure.x.title) + "," + csv_cell(figure.y.title) +
                     (labels ? ",label" : "") + "\n";
  for (const Series& series : figure.series) {
    for (const Point& point : series.points) {
      text += fmt::format("{},{},{}", csv_cell(series.name), point.x, point.y);
      if (labels) text += "," + csv_cell(point.label);
      text += "\n";
    }
  }
  return text;
}

bool spans_orders(const std::vector<Series>& series, double Point::*of) {
  double low = INFINITY;
  double high = 0.0;
  for (const Series& each : series) {
    for (const Point& point : each.points) {
      low = std::min(low, point.*of);
      high = std::max(high, point.*of);
    }
  }
  return low > 0 && high / low >= kLogRatio;
}

std::string short_number(double value) { return fmt::format("{:.4g}", value); }

}  // namespace dotresize
