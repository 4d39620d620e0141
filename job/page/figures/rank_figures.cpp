#include "job/page/figures/rank_figures.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>

#include "job/page/figures/category_figure.h"

namespace dotresize {
namespace {

constexpr size_t kMaxPhases = 7;  // series in one figure, besides one for the other phases

/// Returns seconds (sum over all ranks) and name of each phase, by falling seconds.
std::vector<std::pair<double, std::string>> phases_of(const StoredReport& report) {
  std::map<std::string, double> totals;
  for (const RankReport& rank : report.ranks) {
    for (const auto& [phase, seconds] : rank.seconds) totals[phase] += seconds;
  }
  std::vector<std::pair<double, std::string>> phases;
  phases.reserve(totals.size());
  for (const auto& [phase, seconds] : totals) phases.emplace_back(seconds, phase);
  std::ranges::sort(phases, std::greater<>());
  return phases;
}

/// Merges the series beyond the first kMaxPhases into one.
void merge_phases(Figure& figure) {
  if (figure.series.size() <= kMaxPhases + 1) return;
  Series others{.name = "the other phases"};
  for (size_t i = 0; i < figure.categories.size(); ++i) others.points.push_back({1.0 * i, 0.0});
  for (size_t i = kMaxPhases; i < figure.series.size(); ++i) {
    for (const Point& point : figure.series[i].points) {
      others.points[static_cast<size_t>(point.x)].y += point.y;
    }
  }
  figure.series.resize(kMaxPhases);
  figure.series.push_back(std::move(others));
}

Figure time_figure(const StoredReport& report) {
  Figure figure{.id = "time",
                .title = "Time by rank and phase",
                .x = {"rank"},
                .y = {.title = "wall time (s)", .from_zero = true},
                .bars = true};
  figure.text = short_number(report.summary.wall_time_s) + " s of wall time";
  for (const RankReport& rank : report.ranks) {
    figure.categories.push_back(std::to_string(rank.rank));
  }
  for (const auto& [seconds, phase] : phases_of(report)) {
    figure.series.push_back(series_over<RankReport>(
        phase, report.ranks, [&phase = phase](const RankReport& rank) -> std::optional<double> {
          const auto found = rank.seconds.find(phase);
          if (found == rank.seconds.end()) return std::nullopt;
          return found->second;
        }));
    if (figure.series.size() > 3) continue;
    figure.text +=
        fmt::format("{}{} {} s", figure.series.size() == 1 ? "; mean over the ranks: " : ", ",
                    phase, short_number(seconds / static_cast<double>(report.ranks.size())));
  }
  figure.text += ".";
  figure.csv = csv_of(figure);
  merge_phases(figure);
  return figure;
}

Figure memory_figure(const StoredReport& report) {
  std::vector<std::string> names;
  for (const RankReport& rank : report.ranks) names.push_back(std::to_string(rank.rank));
  constexpr double kGiB = 1 << 30;
  const auto of_ranks = [&](const std::string& name,
                            const std::function<std::optional<double>(const RankReport&)>& value) {
    Series series = series_over<RankReport>(name, report.ranks, value);
    series.line = false;
    return series;
  };
  return category_figure(
      {.id = "memory",
       .title = "Peak memory by rank",
       .x = {"rank"},
       .y = {.title = "peak memory (GiB)", .from_zero = true}},
      names,
      {of_ranks("host",
                [](const RankReport& rank) {
                  return std::optional(static_cast<double>(rank.peak_memory_bytes) / kGiB);
                }),
       of_ranks("GPU", [](const RankReport& rank) -> std::optional<double> {
         if (!rank.peak_device_memory_bytes) return std::nullopt;
         return static_cast<double>(*rank.peak_device_memory_bytes) / kGiB;
       })});
}

}  // namespace

std::vector<Figure> rank_figures(const StoredReport& report) {
  if (report.ranks.empty()) return {};
  return {time_figure(report), memory_figure(report)};
}

}  // namespace dotresize
