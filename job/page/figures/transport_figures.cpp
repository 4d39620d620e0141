#include "job/page/figures/transport_figures.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/text/human_text.h"
#include "job/page/figures/category_figure.h"
#include "job/plan/method.h"

namespace dotresize {
namespace {

std::vector<std::string> names_of(const std::vector<JunctionReport>& junctions) {
  std::vector<std::string> names;
  names.reserve(junctions.size());
  for (const JunctionReport& junction : junctions) names.push_back(junction.name);
  return names;
}

bool has_plan(const JunctionReport& junction) { return junction.transport.has_value(); }

/// Series over the junctions that have a plan.
Series of_plans(const StoredReport& report, const std::string& name,
                const std::function<std::optional<double>(const TransportPicture&)>& value) {
  return series_over<JunctionReport>(name, report.junctions,
                                     [&](const JunctionReport& junction) -> std::optional<double> {
                                       if (!junction.transport) return std::nullopt;
                                       return value(*junction.transport);
                                     });
}

/// "embed"; for a map that several junctions share "embed to layers.3.mlp".
std::string plan_name(const std::vector<JunctionReport>& junctions, size_t first) {
  size_t last = first;
  while (last + 1 < junctions.size() && junctions[last + 1].sinkhorn_iterations &&
         !has_plan(junctions[last + 1])) {
    ++last;
  }
  const std::string& name = junctions[first].name;
  return last == first ? name : name + " to " + junctions[last].name;
}

/// Share of the largest cell in its row's mass, averaged over the rows that have mass.
double mean_largest_share(const TransportPicture& picture) {
  double shares = 0.0;
  int rows = 0;
  for (size_t first = 0; first < picture.levels.size();
       first += static_cast<size_t>(picture.columns)) {
    double sum = 0.0;
    double largest = 0.0;
    for (size_t i = first; i < first + static_cast<size_t>(picture.columns); ++i) {
      const double mass = mass_of_level(picture.levels[i], picture.largest);
      sum += mass;
      largest = std::max(largest, mass);
    }
    if (!(sum > 0)) continue;
    shares += largest / sum;
    ++rows;
  }
  return rows == 0 ? 0.0 : shares / rows;
}

std::string of_source(int64_t width, std::optional<int64_t> hidden_size) {
  if (!hidden_size) return counted(width, "channel");
  return fmt::format("{} of {}", with_separators(width), counted(*hidden_size, "channel"));
}

/// `channels`: text such as "200 of 256 channels".
std::string plan_text(const std::string& channels, const TransportPicture& picture) {
  std::string text = fmt::format(
      "{} are kept: {} and {} of {} each. {} of the mass of the kept channels stays on themselves. "
      "In the mean over the rows the largest cell has {} of a row's mass. The mass of a kept "
      "channel is spread over {} channels (effective number)",
      channels, counted(picture.rows, "row"), counted(picture.columns, "column"),
      counted(picture.block, "channel"), format_percent(picture.stays),
      format_percent(mean_largest_share(picture)), short_number(picture.kept_targets));
  if (picture.merged_targets) {
    text += fmt::format(", that of a merged one over {}", short_number(*picture.merged_targets));
  }
  return text + ".";
}

bool in_principal_components(const StoredReport& report) {
  return std::ranges::any_of(methods(), [&](const Method& method) {
    return method.name == report.summary.method && method.pca();
  });
}

std::string gallery_text(const StoredReport& report) {
  return fmt::format(
      "How much of its mass each channel of the source (row) gives to each channel that is kept "
      "(column); a whole plan has the mass 1. {} Rows above the gap are the kept ones: what stays "
      "where it is lies on the diagonal. Below the gap are the merged ones, by the kept one that "
      "takes most of their mass.",
      in_principal_components(report)
          ? "Channels are principal components here, the one of the largest eigenvalue first."
          : "Channels are in the order of the model.");
}

}  // namespace

std::vector<Figure> transport_figures(const StoredReport& report) {
  if (std::ranges::count_if(report.junctions, has_plan) < 2) return {};
  const std::vector<std::string> names = names_of(report.junctions);
  const std::vector<Series> targets = {
      of_plans(report, "kept channels",
               [](const TransportPicture& plan) { return std::optional(plan.kept_targets); }),
      of_plans(report, "merged channels",
               [](const TransportPicture& plan) { return plan.merged_targets; })};
  return {category_figure({.id = "transport-targets",
                           .title = "Spread of the mass of a channel",
                           .x = {"junction"},
                           .y = {.title = "channels (effective number)",
                                 .log = spans_orders(targets, &Point::y)}},
                          names, targets),
          category_figure({.id = "transport-stays",
                           .title = "Mass of the kept channels that stays on themselves",
                           .x = {"junction"},
                           .y = {.title = "share of their mass (%)", .from_zero = true}},
                          names, {of_plans(report, "stays (%)", [](const TransportPicture& plan) {
                            return std::optional(100.0 * plan.stays);
                          })})};
}

std::optional<PlanGallery> plan_gallery(const StoredReport& report) {
  PlanGallery gallery;
  gallery.text = gallery_text(report);
  gallery.x = "channels that are kept";
  gallery.y = "channels of the source";
  for (size_t i = 0; i < report.junctions.size(); ++i) {
    const JunctionReport& junction = report.junctions[i];
    if (!junction.transport) continue;
    const std::string channels = of_source(junction.width, report.summary.hidden_size);
    gallery.plans.push_back({plan_name(report.junctions, i),
                             plan_text(channels, *junction.transport), *junction.transport});
  }
  if (gallery.plans.empty()) return std::nullopt;
  return gallery;
}

}  // namespace dotresize
