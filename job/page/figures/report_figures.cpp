#include "job/page/figures/report_figures.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/text/encodings.h"
#include "base/text/human_text.h"
#include "job/page/figures/category_figure.h"
#include "job/page/figures/damage_figure.h"
#include "job/page/figures/rank_figures.h"
#include "job/page/figures/transport_figures.h"

namespace dotresize {
namespace {

constexpr char kJunction[] = "junction";
constexpr char kSublayer[] = "sublayer";
constexpr size_t kMaxSpectra = 8;  // curves in one figure

template <class Entry>
std::vector<std::string> names_of(const std::vector<Entry>& entries) {
  std::vector<std::string> names;
  names.reserve(entries.size());
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
  return category_figure({.id = "effective-rank",
                          .title = "Effective rank and width over depth",
                          .x = {kJunction},
                          .y = {.title = "channels", .from_zero = true}},
                         names_of(report.junctions), series);
}

Figure energy_figure(const StoredReport& report) {
  return category_figure({.id = "retained-energy",
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

/// Points (rank, fraction of the energy beyond it), without the last point, which is 0 except for
/// rounding.
Series tail_of(const JunctionReport& junction) {
  Series series{.name = junction.name, .marks = false};
  for (const auto& [rank, energy] : junction.spectrum) {
    if (energy < 1.0) series.points.push_back({static_cast<double>(rank), 1.0 - energy});
  }
  return series;
}

/// CSV with a row for each rank and a column for each junction.
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
                .x = {.title = "rank r (directions)"},
                .y = {.title = "fraction of the energy of the activations"}};
  const size_t shown = std::min(junctions.size(), kMaxSpectra);
  for (size_t i = 0; i < shown; ++i) {  // spread evenly over the depth, with the first and the last
    const size_t at = shown == 1 ? 0 : i * (junctions.size() - 1) / (shown - 1);
    figure.series.push_back(tail_of(*junctions[at]));
  }
  figure.x.log = spans_orders(figure.series, &Point::x);
  figure.y.log = spans_orders(figure.series, &Point::y);
  figure.text = fmt::format(
      "Of the eigenvalues of each junction's Gram matrix: what a projection on the r leading ones "
      "leaves out. {} of {} shown; the data have all, as cumulative energy.",
      shown, counted(std::ssize(junctions), "junction"));
  figure.csv = spectrum_csv(junctions);
  return figure;
}

Figure shortcut_figure(const StoredReport& report) {
  return category_figure(
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

std::vector<Figure> mlp_figures(const StoredReport& report) {
  const std::vector<std::string> names = names_of(report.mlps);
  const auto of_mlps = [&](const std::string& name,
                           const std::function<std::optional<double>(const MlpReport&)>& value) {
    return series_over<MlpReport>(name, report.mlps, value);
  };
  std::vector<Figure> figures = {category_figure(
      {.id = "mlp-width",
       .title = "Features of the MLPs (d_ff) over depth",
       .x = {kSublayer},
       .y = {.title = "features", .from_zero = true}},
      names,
      {of_mlps("left", [](const MlpReport& mlp) { return std::optional(1.0 * mlp.width); }),
       of_mlps("of the source",
               [](const MlpReport& mlp) { return std::optional(1.0 * mlp.intermediate_size); })})};
  if (report.in_metric_of_loss()) return figures;  // the damage figure shows it
  figures.push_back(
      category_figure({.id = "mlp-predicted-rise",
                       .title = "Predicted error by the cut of the MLPs",
                       .x = {kSublayer},
                       .y = {.title = "half the squared error of the sublayer's output"}},
                      names, {of_mlps("predicted error", [](const MlpReport& mlp) {
                        return std::optional(mlp.predicted_loss_increase);
                      })}));
  return figures;
}

Figure value_figure(const StoredReport& report) {
  const auto of_attentions =
      [&](const std::string& name,
          const std::function<std::optional<double>(const AttentionReport&)>& value) {
        return series_over<AttentionReport>(name, report.attentions, value);
      };
  return category_figure({.id = "value-head-dim",
                          .title = "Channels of a value head over depth",
                          .x = {kSublayer},
                          .y = {.title = "channels", .from_zero = true}},
                         names_of(report.attentions),
                         {of_attentions("left",
                                        [](const AttentionReport& attention) {
                                          return std::optional(1.0 * attention.value_head_dim);
                                        }),
                          of_attentions("of the source", [](const AttentionReport& attention) {
                            return std::optional(1.0 * attention.head_dim);
                          })});
}

Figure healed_layers_figure(const HealingReport& healing) {
  const auto of_layers =
      [&](const std::string& name,
          const std::function<std::optional<double>(const HealedLayerReport&)>& value) {
        return series_over<HealedLayerReport>(name, healing.layers, value);
      };
  return category_figure(
      {.id = "healed-layers",
       .title = "Error behind each layer, on held-out windows",
       .x = {"layer"},
       .y = {.title = "relative squared error", .from_zero = true}},
      names_of(healing.layers),
      {of_layers("folded",
                 [](const HealedLayerReport& layer) { return std::optional(layer.folded_error); }),
       of_layers("healed", [](const HealedLayerReport& layer) {
         return std::optional(layer.healed_error);
       })});
}

Figure healing_figure(const HealingReport& healing) {
  std::vector<std::string> epochs;
  for (std::size_t epoch = 0; epoch < healing.held_out_kl.size(); ++epoch) {
    epochs.push_back(epoch == 0 ? "folded" : std::to_string(epoch));
  }
  if (!epochs.empty()) epochs.back() = "kept";
  return category_figure({.id = "healing",
                          .title = "Divergence on held-out windows, while the output is healed",
                          .x = {"epochs"},
                          .y = {.title = "KL, nats per token", .from_zero = true}},
                         epochs, {series_over<double>("KL", healing.held_out_kl, [](double kl) {
                           return std::optional(kl);
                         })});
}

std::vector<Figure> sinkhorn_figures(const StoredReport& report) {
  const std::vector<std::string> names = names_of(report.junctions);
  Series violation = of_junctions(report, "violation", [](const JunctionReport& junction) {
    return as_double(junction.sinkhorn_violation);
  });
  std::vector<Figure> figures = {category_figure(
      {.id = "sinkhorn-iterations",
       .title = "Sinkhorn iterations",
       .x = {kJunction},
       .y = {.title = "iterations", .from_zero = true},
       .bars = true},
      names, {of_junctions(report, "iterations", [](const JunctionReport& junction) {
        return as_double(junction.sinkhorn_iterations);
      })})};
  if (violation.points.empty()) return figures;
  figures.push_back(category_figure(
      {.id = "sinkhorn-violation",
       .title = "Violation of the marginals that Sinkhorn has left",
       .x = {kJunction},
       .y = {.title = "ℓ1 violation of a marginal", .log = spans_orders({violation}, &Point::y)}},
      names, {violation}));
  return figures;
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
  add(damage_figures(report));
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
  if (!report.attentions.empty()) add({value_figure(report)});
  if (report.healing) {
    add({healed_layers_figure(*report.healing), healing_figure(*report.healing)});
  }
  if (any_junction([](const JunctionReport& junction) {
        return junction.sinkhorn_iterations.has_value();
      })) {
    add(sinkhorn_figures(report));
  }
  add(transport_figures(report));
  add(rank_figures(report));
  return figures;
}

}  // namespace dotresize
