#include "job/page/page.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "base/process/program.h"
#include "base/text/csv.h"
#include "job/page/page_blocks.h"
#include "job/page/page_data.h"
#include "job/page/template/html_template.h"
#include "job/page/template/page_files.h"

namespace dotresize {
namespace {

using ctemplate::TemplateDictionary;

constexpr double kLogRatio = 5.0;

void set_hashed(TemplateDictionary& dictionary, const char* name, const char* hash_name,
                std::string_view content) {
  set_embedded(dictionary, name, content);
  dictionary.SetValue(hash_name, content_hash(content));
}

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

std::string page_html(const Page& page) {
  TemplateDictionary dictionary("page");
  set_hashed(dictionary, "CSS", "CSS_HASH", page_css());
  set_hashed(dictionary, "CHART_JS", "CHART_JS_HASH", chart_js());
  set_hashed(dictionary, "PAGE_JS", "PAGE_JS_HASH", page_js());
  dictionary.SetValue("FIGURES_JSON", figures_json(page.figures));
  set_text(dictionary, "KIND", page.kind);
  set_text(dictionary, "TITLE", page.title);
  set_text(dictionary, "SUMMARY", page.summary);
  set_text(dictionary, "VERSION", kVersion);
  set_embedded(dictionary, "BLOCKS", blocks_html(page));
  return expand_template(page_template(), "page.html", dictionary);
}

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
