#include "job/plan/allocate/allocation.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <iterator>
#include <numeric>
#include <optional>
#include <stdexcept>
#include <utility>

#include "job/model/model_size.h"
#include "job/plan/allocate/choices.h"
#include "job/plan/allocate/loss_allocation.h"
#include "job/plan/net_size.h"

namespace dotresize {
namespace {

int64_t bytes_of(const ModelConfig& config, const ResolvedJob& job, const Allocation& allocation) {
  return stored_bytes(
      output_model_config(with_chosen_sizes(config, job, allocation), job, job.widths));
}

/// Returns the last choices, which are the smallest, without predictions.
Allocation smallest_sizes(const ModelConfig& config, const ResolvedJob& job) {
  Allocation least;
  for (int64_t s = 0; s < config.num_sublayers(); ++s) {
    if (!may_be_cut(job, s)) continue;
    const auto [unit, size] = choices(config, job, s).back();
    least.chosen.push_back({s, unit, size});
  }
  return least;
}

void check_curves(const ModelConfig& config, const ResolvedJob& job,
                  const std::vector<SublayerCurve>& curves) {
  std::size_t next = 0;
  for (int64_t s = 0; s < config.num_sublayers(); ++s) {
    if (!may_be_cut(job, s)) continue;
    const bool known = next < curves.size() && curves[next].sublayer == s &&
                       curves[next].loss_increases.size() == choices(config, job, s).size();
    if (!known) {
      throw std::invalid_argument(sublayer_name(s) + ": not the predictions of this model");
    }
    const bool finite = std::ranges::all_of(
        curves[next].loss_increases, [](double increase) { return std::isfinite(increase); });
    if (!finite) throw std::invalid_argument(sublayer_name(s) + ": a prediction is not finite");
    ++next;
  }
  if (next != curves.size())
    throw std::invalid_argument("there are predictions of other sublayers");
}

/// Returns the index of each curve's choice: one choice for all MLPs and one for all mixtures.
std::vector<std::size_t> choose_alike(const ModelConfig& config,
                                      const std::vector<SublayerCurve>& curves,
                                      const std::vector<LossCurve>& by_bytes, int64_t limit) {
  LossCurve all[2] = {{{0}, {0.0}}, {{0}, {0.0}}};  // sums over MLPs, over mixtures
  for (std::size_t i = 0; i < curves.size(); ++i) {
    const auto& [bytes, loss_increases] = by_bytes[i];
    auto& [sizes, losses] = all[config.is_mixture(curves[i].sublayer) ? 1 : 0];
    sizes.resize(bytes.size());
    losses.resize(bytes.size());
    std::ranges::transform(sizes, bytes, sizes.begin(), std::plus<>());
    std::ranges::transform(losses, loss_increases, losses.begin(), std::plus<>());
  }
  const auto& [mlps, mixtures] = all;
  std::optional<double> least;
  std::array<std::size_t, 2> best = {};
  for (std::size_t i = 0; i < mlps.sizes.size(); ++i) {
    for (std::size_t j = 0; j < mixtures.sizes.size(); ++j) {
      const double loss = mlps.loss_increases[i] + mixtures.loss_increases[j];
      if (mlps.sizes[i] + mixtures.sizes[j] > limit || (least && loss >= *least)) continue;
      least = loss;
      best = {i, j};
    }
  }
  if (!least) throw std::invalid_argument("the smallest sizes have more bytes than there may be");
  std::vector<std::size_t> chosen;
  chosen.reserve(curves.size());
  for (const SublayerCurve& curve : curves) {
    chosen.push_back(best[config.is_mixture(curve.sublayer) ? 1 : 0]);
  }
  return chosen;
}

}  // namespace

double Allocation::predicted_loss_increase() const {
  return dotresize::predicted_loss_increase(chosen);
}

std::vector<ChosenSize> Allocation::in(bool attentions) const {
  std::vector<ChosenSize> found;
  std::ranges::copy_if(chosen, std::back_inserter(found), [&](const ChosenSize& one) {
    return is_attention(one.sublayer) == attentions;
  });
  return found;
}

double predicted_loss_increase(const std::vector<ChosenSize>& chosen) {
  return std::accumulate(chosen.begin(), chosen.end(), 0.0, [](double sum, const ChosenSize& one) {
    return sum + one.predicted_loss_increase;
  });
}

int64_t fewest_bytes(const ModelConfig& config, const ResolvedJob& job) {
  return bytes_of(config, job, smallest_sizes(config, job));
}

std::string allocation_warning(const ModelConfig& config, const ResolvedJob& job) {
  if (!job.target.allocation) return "";
  constexpr double kUseful = 0.55;  // docs/results.md
  const AllocationTarget& target = *job.target.allocation;
  const auto dense = static_cast<double>(stored_bytes(config));
  // Another dtype makes a model smaller without a cut.
  const ModelConfig uncut = with_dtypes(config, job.output.dtypes);
  const auto whole = static_cast<double>(stored_bytes(uncut));
  const auto ends = static_cast<double>(end_size(uncut).bytes);
  const double kept = (target.size * dense - ends) / (whole - ends);
  if (kept >= kUseful) return "";
  return fmt::format(
      "{} {}: embedding and head, {:.0f} % of the model, are not cut, so the layers would keep "
      "{:.0f} % of their bytes; below {:.0f} % published models lose most of what they know, so "
      "give a size of {:.2f} or more, or first take tokens from the model with `dotresize "
      "vocabulary`",
      job.target.asked.key, job.target.asked.value, 100.0 * ends / whole,
      100.0 * std::max(kept, 0.0), 100.0 * kUseful,
      std::ceil(100.0 * (kUseful * (whole - ends) + ends) / dense) / 100.0);
}

Allocation allocate(const ModelConfig& config, const ResolvedJob& job,
                    const std::vector<SublayerCurve>& curves) {
  check_curves(config, job, curves);
  std::vector<std::vector<Choice>> possible;
  std::vector<LossCurve> by_bytes;
  int64_t fewest = 0;  // bytes of these sublayers
  for (const SublayerCurve& curve : curves) {
    possible.push_back(choices(config, job, curve.sublayer));
    by_bytes.push_back(
        {bytes_of_choices(config, job.output.dtypes, curve.sublayer, possible.back()),
         curve.loss_increases});
    fewest += by_bytes.back().sizes.back();
  }
  const int64_t most = largest_bytes(job.target.allocation->size, stored_bytes(config));
  const int64_t limit = most - fewest_bytes(config, job) + fewest;
  const std::vector<std::size_t> sizes = job.stock_output()
                                             ? choose_alike(config, curves, by_bytes, limit)
                                             : allocate_by_loss(by_bytes, limit);
  Allocation found;
  for (std::size_t i = 0; i < curves.size(); ++i) {
    const auto& [unit, size] = possible[i].at(sizes[i]);
    found.chosen.push_back({curves[i].sublayer, unit, size, curves[i].loss_increases[sizes[i]]});
  }
  return found;
}

ModelConfig with_chosen_sizes(const ModelConfig& config, const ResolvedJob& job,
                              const Allocation& allocation) {
  ModelConfig cut = config;
  cut.form.sizes_by_layer = !job.stock_output();
  for (const ChosenSize& one : allocation.chosen) {
    one.unit->set_size(one.size, cut.layers.at(static_cast<std::size_t>(layer_of(one.sublayer))));
  }
  return cut;
}

}  // namespace dotresize
