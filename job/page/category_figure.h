#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "job/page/page.h"

namespace dotresize {

/// Of each entry a value, if it has one.
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

/// `about` with these categories, its data, and without the series that have none; its text has the
/// span of each.
Figure category_figure(const Figure& about, const std::vector<std::string>& categories,
                       const std::vector<Series>& all);

}  // namespace dotresize
