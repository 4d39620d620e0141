#include "job/page/report_figures.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <set>

#include "base/csv.h"
#include "base/human_text.h"

namespace dotresize {
namespace {

constexpr char kJunction[] = "junction";
constexpr char kSublayer[] = "sublayer";
constexpr size_t kMaxSpectra = 8;  // in one figure
constexpr size_t kMaxPhases = 7;

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

/// "184 (layers.0.mlp) to 227 (embed), mean 205".
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

/// A figure over junctions or sublayers, without the series that have no data; its text has the
/// span of each.
Figure over_depth(const Figure& about, const std::vector<std::string>& names,
                  const std::vector<Series>& all) {
  Figure figure = about;
  figure.categories = names;
  for (const Series& series : all) {
    if (series.points.empty()) continue;
    figure.series.push_back(series);
    figure.text += fmt::format("{}{}: {}", figure.text.empty() ? "" : "; ", series.name,
                               span_of(series, names));
  }
  figure.text += ".";
  figure.csv = csv_of(figure);
  return figure;
}

template <class Entry>
std::vector<std::string> names_of(const std::vector<Entry>& entries) {
  std::vector<std::string> names;
  for (const Entry& entry : entries) names.push_back(entry.name);
  return names;
}

template <class Value>
std::optional<double> as_double(const std::optional<Value>& value) {
  if (!value) return std::nullopt;
  return static_cast<double>(*value);
}

Series of_junctions(const StoredReport& report, const std::string& name,
                    const std::function<std::optional<double>(const JunctionReport&)>& value) {
  return series_over<JunctionReport>(name, report.junctions, value);
}

Figure width_figure(const StoredReport& report) {
  std::vector<Series> series = {
      of_junctions(report, "effective rank (τ = 0.99)",
                   [](const JunctionReport& junction) -> std::optional<double> {
                     if (!junction.mapped) return std::nullopt;
                     return static_cast<double>(junction.effective_rank);
                   }),
      of_junctions(report, "width", [](const JunctionReport& junction) {
        return std::optional(static_cast<double>(junction.width));
      })};
  if (const auto d = report.summary.hidden_size) {
    series.push_back(of_junctions(report, "hidden_size of the source", [d](const JunctionReport&) {
      return std::optional(static_cast<double>(*d));
    }));
    series.back().marks = false;
  }
  return over_depth({.id = "effective-rank",
                     .title = "Effective rank and width over depth",
                     .x = {kJunction},
                     .y = {.title = "channels", .from_zero = true}},
                    names_of(report.junctions), series);
}

Figure energy_figure(const StoredReport& report) {
  return over_depth({.id = "retained-energy",
                     .title = "Retained energy per junction",
                     .x = {kJunction},
                     .y = {"retained energy (%)"}},
                    names_of(report.junctions),
                    {of_junctions(report, "retained energy (%)",
                                  [](const JunctionReport& junction) -> std::optional<double> {
                                    if (!junction.mapped) return std::nullopt;
                                    return 100.0 * junction.retained_energy;
                                  })});
}

/// (rank, fraction of the energy beyond it), without the last one, which is 0 but for rounding.
Series tail_of(const JunctionReport& junction) {
  Series series{.name = junction.name, .marks = false};
  for (const auto& [rank, energy] : junction.spectrum) {
    if (energy < 1.0) series.points.push_back({static_cast<double>(rank), 1.0 - energy});
  }
  return series;
}

/// A row for each rank, a column for each junction.
std::string spectrum_csv(const std::vector<const JunctionReport*>& junctions) {
  std::string text = "rank";
  std::map<int64_t, std::vector<std::string>> rows;
  for (size_t i = 0; i < junctions.size(); ++i) {
    text += "," + csv_cell(junctions[i]->name);
    for (const auto& [rank, energy] : junctions[i]->spectrum) {
      auto& row = rows[rank];
      row.resize(junctions.size());
      row[i] = fmt::format("{:.9f}", energy);
    }
  }
  text += "\n";
  for (const auto& [rank, row] : rows) {
    text += std::to_string(rank);
    for (const std::string& cell : row) text += "," + cell;
    text += "\n";
  }
  return text;
}

Figure spectrum_figure(const std::vector<const JunctionReport*>& junctions) {
  Figure figure{.id = "spectrum",
                .title = "Spectrum: energy beyond the r leading directions",
                .x = {.title = "rank r (directions)", .log = true},
                .y = {.title = "fraction of the energy of the activations", .log = true}};
  const size_t shown = std::min(junctions.size(), kMaxSpectra);
  for (size_t i = 0; i < shown; ++i) {  // evenly over the depth, first and last among them
    const size_t at = shown == 1 ? 0 : i * (junctions.size() - 1) / (shown - 1);
    figure.series.push_back(tail_of(*junctions[at]));
  }
  figure.text = fmt::format(
      "Of the eigenvalues of each junction's Gram matrix: what a projection on the r leading ones "
      "leaves out. {} of {} shown; the data have all, as cumulative energy.",
      shown, counted(std::ssize(junctions), "junction"));
  figure.csv = spectrum_csv(junctions);
  return figure;
}

Figure shortcut_figure(const StoredReport& report) {
  return over_depth(
      {.id = "shortcut-rank",
       .title = "Rank of the shortcuts over depth",
       .x = {kSublayer},
       .y = {.title = "rank beside the identity", .from_zero = true}},
      names_of(report.shortcuts),
      {series_over<ShortcutReport>("rank", report.shortcuts,
                                   [](const auto& shortcut) { return as_double(shortcut.rank); }),
       series_over<ShortcutReport>("exact rank", report.shortcuts, [](const auto& shortcut) {
         return std::optional(static_cast<double>(shortcut.exact_rank));
       })});
}

bool is_fisher(const StoredReport& report) {
  const nlohmann::json& method = report.document.at("method");
  return method.contains("metric") && method.at("metric") == "fisher";
}

std::vector<Figure> mlp_figures(const StoredReport& report) {
  const std::vector<std::string> names = names_of(report.mlps);
  const auto of_mlps = [&](const std::string& name,
                           const std::function<std::optional<double>(const MlpReport&)>& value) {
    return series_over<MlpReport>(name, report.mlps, value);
  };
  return {over_depth(
              {.id = "mlp-width",
               .title = "Features of the MLPs (d_ff) over depth",
               .x = {kSublayer},
               .y = {.title = "features", .from_zero = true}},
              names,
              {of_mlps("left", [](const MlpReport& mlp) { return std::optional(1.0 * mlp.width); }),
               of_mlps("of the source",
                       [](const MlpReport& mlp) {
                         return std::optional(1.0 * mlp.intermediate_size);
                       })}),
          over_depth({.id = "mlp-predicted-rise",
                      .title = "Predicted rise by the cut of the MLPs",
                      .x = {kSublayer},
                      .y = {.title = is_fisher(report)
                                         ? "loss (nats a token)"
                                         : "half the squared error of the sublayer's output"}},
                     names, {of_mlps("predicted rise", [](const MlpReport& mlp) {
                       return std::optional(mlp.predicted_rise);
                     })})};
}

std::vector<Figure> sinkhorn_figures(const StoredReport& report) {
  const std::vector<std::string> names = names_of(report.junctions);
  Series violation = of_junctions(report, "violation", [](const JunctionReport& junction) {
    return as_double(junction.sinkhorn_violation);
  });
  std::vector<Figure> figures = {
      over_depth({.id = "sinkhorn-iterations",
                  .title = "Sinkhorn iterations",
                  .x = {kJunction},
                  .y = {.title = "iterations", .from_zero = true},
                  .bars = true},
                 names, {of_junctions(report, "iterations", [](const JunctionReport& junction) {
                   return as_double(junction.sinkhorn_iterations);
                 })})};
  if (violation.points.empty()) return figures;
  figures.push_back(over_depth(
      {.id = "sinkhorn-violation",
       .title = "Violation of the marginals that Sinkhorn has left",
       .x = {kJunction},
       .y = {.title = "ℓ1 violation of a marginal", .log = spans_orders({violation}, &Point::y)}},
      names, {violation}));
  return figures;
}

Figure time_figure(const StoredReport& report) {
  std::map<std::string, double> totals;
  for (const RankReport& rank : report.ranks) {
    for (const auto& [phase, seconds] : rank.seconds) totals[phase] += seconds;
  }
  std::vector<std::pair<double, std::string>> phases;
  for (const auto& [phase, seconds] : totals) phases.emplace_back(seconds, phase);
  std::ranges::sort(phases, std::greater<>());

  Figure figure{.id = "time",
                .title = "Time by rank and phase",
                .x = {"rank"},
                .y = {.title = "wall time (s)", .from_zero = true},
                .bars = true};
  for (const RankReport& rank : report.ranks) {
    figure.categories.push_back(std::to_string(rank.rank));
  }
  for (const auto& [seconds, phase] : phases) {
    figure.series.push_back(series_over<RankReport>(
        phase, report.ranks, [&phase = phase](const RankReport& rank) -> std::optional<double> {
          const auto found = rank.seconds.find(phase);
          if (found == rank.seconds.end()) return std::nullopt;
          return found->second;
        }));
    if (figure.series.size() > 3) continue;
    figure.text +=
        fmt::format("{}{} {} s", figure.text.empty() ? "Mean over the ranks: " : ", ", phase,
                    short_number(seconds / static_cast<double>(report.ranks.size())));
  }
  figure.text +=
      fmt::format("; {} s of wall time in all.", short_number(report.summary.wall_time_s));
  figure.csv = csv_of(figure);
  if (figure.series.size() <= kMaxPhases + 1) return figure;
  Series others{.name = "the other phases"};
  for (size_t i = 0; i < report.ranks.size(); ++i) others.points.push_back({1.0 * i, 0.0});
  for (size_t i = kMaxPhases; i < figure.series.size(); ++i) {
    for (const Point& point : figure.series[i].points) {
      others.points[static_cast<size_t>(point.x)].y += point.y;
    }
  }
  figure.series.resize(kMaxPhases);
  figure.series.push_back(std::move(others));
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
  return over_depth(
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

std::vector<Figure> report_figures(const StoredReport& report) {
  std::vector<Figure> figures;
  const auto add = [&](std::vector<Figure> more) {
    std::ranges::move(more, std::back_inserter(figures));
  };
  const auto any_junction = [&](const auto& has) {
    return std::ranges::any_of(report.junctions, has);
  };
  if (any_junction(&JunctionReport::mapped)) {
    add({width_figure(report), energy_figure(report)});
  }
  std::vector<const JunctionReport*> with_spectrum;
  for (const JunctionReport& junction : report.junctions) {
    if (!junction.spectrum.empty()) with_spectrum.push_back(&junction);
  }
  if (!with_spectrum.empty()) add({spectrum_figure(with_spectrum)});
  if (!report.shortcuts.empty()) add({shortcut_figure(report)});
  if (!report.mlps.empty()) add(mlp_figures(report));
  if (any_junction([](const JunctionReport& junction) {
        return junction.sinkhorn_iterations.has_value();
      })) {
    add(sinkhorn_figures(report));
  }
  if (!report.ranks.empty()) add({time_figure(report), memory_figure(report)});
  return figures;
}

}  // namespace dotresize
