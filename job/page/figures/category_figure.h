#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "job/page/page.h"

namespace dotresize {

/// Series with the value of each entry that has one, over the entries' indices.
template <class Entry>
Series series_over(const std::string& name, const std::vector<Entry>& entries,
                   const std::function<std::optional<double>(const Entry&)>& value) {
  Series series{.name = name};
  for (size_t i = 0; i < entries.size(); ++i) {
    if (const auto found = value(entries[i])) {
      series.points.push_back({static_cast<double>(i), *found});
    }
  }
  return series;
}

/// Completes `about` with the categories, the CSV data and the series that have points. Its text
/// gets the span of each series.
Figure category_figure(const Figure& about, const std::vector<std::string>& categories,
                       const std::vector<Series>& all);

}  // namespace dotresize
