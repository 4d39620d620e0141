#include "job/page/figures/damage_figure.h"

#include <fmt/format.h>

#include <map>

#include "base/text/human_text.h"

namespace dotresize {
namespace {

/// "layers.3" for "layers.3.mlp", "embed" for "embed".
std::string layer_of(const std::string& name) {
  const size_t second = name.find('.', name.find('.') + 1);
  return name.starts_with("layers.") ? name.substr(0, second) : name;
}

/// Collects the layers of a report in their order, and stacked bars over them.
class Damage {
 public:
  /// `loss_increase` returns an entry's loss increase, if it has one.
  template <class Entry, class LossIncrease>
  void add(const std::string& part, const std::vector<Entry>& entries,
           const LossIncrease& loss_increase) {
    std::map<size_t, double> sums;
    for (const Entry& entry : entries) {
      const std::optional<double> found = loss_increase(entry);
      if (found) sums[index_of(layer_of(entry.name))] += *found;
    }
    if (sums.empty()) return;
    Series series{.name = part};
    for (const auto& [layer, sum] : sums) {
      series.points.push_back({static_cast<double>(layer), sum});
      total_ += sum;
    }
    series_.push_back(std::move(series));
  }

  bool empty() const { return series_.empty(); }
  double total() const { return total_; }

  Figure figure(std::string text) const {
    Figure figure{.id = "predicted-damage",
                  .title = "Predicted damage by layer",
                  .text = std::move(text),
                  .x = {"layer"},
                  .y = {.title = "rise of the loss (nats a token)", .from_zero = true},
                  .categories = layers_,
                  .bars = true,
                  .series = series_};
    figure.csv = csv_of(figure);
    return figure;
  }

 private:
  size_t index_of(const std::string& layer) {
    const auto [at, added] = indices_.emplace(layer, layers_.size());
    if (added) layers_.push_back(layer);
    return at->second;
  }

  std::vector<std::string> layers_;
  std::map<std::string, size_t> indices_;
  std::vector<Series> series_;
  double total_ = 0.0;
};

}  // namespace

std::vector<Figure> damage_figures(const StoredReport& report) {
  if (!report.in_metric_of_loss()) return {};
  Damage damage;
  damage.add("maps", report.junctions,
             [](const auto& entry) { return entry.predicted_loss_increase; });
  damage.add("MLPs", report.mlps,
             [](const auto& entry) { return std::optional(entry.predicted_loss_increase); });
  damage.add("value heads", report.attentions,
             [](const auto& entry) { return std::optional(entry.predicted_loss_increase); });
  damage.add("shortcuts", report.shortcuts,
             [](const auto& entry) { return entry.predicted_loss_increase; });
  if (damage.empty()) return {};
  std::string text = fmt::format("The bars sum to {} nats a token", format_nats(damage.total()));
  const auto& measured = report.summary.compressed.kl;
  if (measured) text += fmt::format("; the measured KL is {}", format_nats(*measured));
  return {damage.figure(text + ".")};
}

}  // namespace dotresize
