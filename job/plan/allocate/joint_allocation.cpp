#include "job/plan/allocate/joint_allocation.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <optional>
#include <stdexcept>

#include "base/errors.h"
#include "job/model/model_size.h"
#include "job/plan/allocate/inner_widths.h"
#include "job/plan/allocate/junction_widths.h"
#include "job/plan/allocate/loss_allocation.h"
#include "job/plan/net_size.h"

namespace dotresize {
namespace {

/// Allocation with one map. `width` and `features`, the same in all MLPs, are indices.
Allocation with_one_map(const ModelConfig& config, const ResolvedJob& job,
                        const PredictedLossIncreases& loss_increases, std::size_t width,
                        std::size_t features) {
  const std::vector<int64_t> widths =
      possible_widths(job.model.hidden_size, job.target.allocation->round_to);
  Allocation found;
  found.widths =
      decided(uniform_widths(config, job.maps.head_sliced, widths[width]), config.hidden_size);
  for (const std::vector<double>& of_one : loss_increases.junctions) {
    found.junction_loss_increases.push_back(of_one.at(width * widths.size() + width));
  }
  for (int64_t layer = 0; layer < config.num_layers; ++layer) {
    found.features.push_back(
        possible_mlp_widths(config, job.mlp.value(), 2 * layer + 1).at(features));
    found.mlp_loss_increases.push_back(
        loss_increases.mlps.at(static_cast<std::size_t>(layer)).at(features));
  }
  return found;
}

int64_t bytes_of(const ModelConfig& config, const ResolvedJob& job, const Allocation& chosen) {
  const ResolvedJob known = with_allocation(job, config, chosen);
  return net_size(with_features(config, job, chosen), known, known.widths).compressed_bytes;
}

/// Allocation without maps. `size` returns an index in possible_inner_widths(). It is not called
/// for value heads of a stock output.
Allocation with_sizes(const ModelConfig& config, const ResolvedJob& job,
                      const PredictedLossIncreases& loss_increases,
                      const std::function<std::size_t(int64_t sublayer)>& size) {
  Allocation found;
  found.widths =
      decided(uniform_widths(config, job.maps.head_sliced, config.hidden_size), config.hidden_size);
  if (!job.stock_output()) {
    found.shortcut_ranks.assign(static_cast<std::size_t>(config.num_sublayers()), 0);
    found.shortcut_loss_increases.assign(static_cast<std::size_t>(config.num_sublayers()), 0.0);
  }
  for (int64_t s = 0; s < config.num_sublayers(); ++s) {
    if (!may_be_cut(job, s)) continue;
    const bool attends = is_attention(s);
    const auto layer = static_cast<std::size_t>(layer_of(s));
    const auto& curves = attends ? loss_increases.values : loss_increases.mlps;
    (attends ? found.values : found.features)
        .push_back(possible_inner_widths(config, job, s).at(size(s)));
    (attends ? found.value_loss_increases : found.mlp_loss_increases)
        .push_back(curves.at(layer).at(size(s)));
  }
  return found;
}

void check_loss_increases(const ModelConfig& config, const ResolvedJob& job,
                          const PredictedLossIncreases& loss_increases) {
  const std::size_t grid =
      possible_widths(job.model.hidden_size, job.target.allocation->round_to).size();
  if (std::ssize(loss_increases.junctions) != mapped_junctions(config, job.maps.head_sliced) ||
      std::ssize(loss_increases.mlps) != config.num_layers ||
      (job.allocates_values() && std::ssize(loss_increases.values) != config.num_layers) ||
      (!loss_increases.shortcuts.empty() &&
       std::ssize(loss_increases.shortcuts) != config.num_sublayers())) {
    throw std::invalid_argument("not the predicted rises of this model");
  }
  for (std::size_t j = 0; j < loss_increases.junctions.size(); ++j) {
    const std::vector<double>& of_one = loss_increases.junctions[j];
    const bool finite = std::ranges::all_of(
        of_one, [](double loss_increase) { return std::isfinite(loss_increase); });
    if (of_one.size() == grid * grid && finite) continue;
    throw std::invalid_argument(fmt::format("the predicted rises of junction {} are not {}", j,
                                            finite ? "those of this model" : "finite"));
  }
}

}  // namespace

void check_allocation_target(const ModelConfig& config, const ResolvedJob& job) {
  if (job.target.allocation->round_to > job.model.hidden_size) {
    throw InputError("method.size",
                     fmt::format("no width up to the hidden size, {}, is a multiple of {}; a "
                                 "smaller round_to would do",
                                 job.model.hidden_size, job.target.allocation->round_to));
  }
  // Everything as narrow as maps allow.
  const std::vector<int64_t> widths =
      possible_widths(job.model.hidden_size, job.target.allocation->round_to);
  Allocation least;
  least.widths =
      uniform_widths(config, job.maps.head_sliced,
                     widths.at(job.stock_output() ? 0 : least_allocated_width(config, job)));
  for (int64_t s = 0; s < config.num_sublayers(); ++s) {
    if (!may_be_cut(job, s)) continue;
    (is_attention(s) ? least.values : least.features)
        .push_back(possible_inner_widths(config, job, s).back());
  }
  const int64_t dense_bytes = stored_bytes(config);
  const int64_t least_bytes = bytes_of(config, job, least);
  if (least_bytes <= largest_bytes(job.target.allocation->size, dense_bytes)) return;
  const double fraction = static_cast<double>(least_bytes) / static_cast<double>(dense_bytes);
  throw InputError("method.size",
                   fmt::format("{} is not available: the smallest widths, {}, and the fewest "
                               "features give {:.6f} of the dense model's bytes",
                               job.target.allocation->size, least.widths.all.front(), fraction));
}

Allocation allocate_jointly(const ModelConfig& config, const ResolvedJob& job,
                            const PredictedLossIncreases& loss_increases) {
  check_loss_increases(config, job, loss_increases);
  if (!job.stock_output()) return search_allocation(config, job, loss_increases);
  // Try each width of the one map with the most features that are within the size.
  const std::vector<int64_t> widths =
      possible_widths(job.model.hidden_size, job.target.allocation->round_to);
  const std::size_t steps = possible_mlp_widths(config, job.mlp.value(), 1).size();
  const int64_t most = largest_bytes(job.target.allocation->size, stored_bytes(config));
  std::optional<Allocation> best;
  for (std::size_t w = 0; w < widths.size(); ++w) {
    if (widths[w] % job.target.allocation->round_to != 0) continue;
    std::vector<std::size_t> features(steps);
    std::iota(features.begin(), features.end(), std::size_t{0});
    const auto first = std::ranges::partition_point(features, [&](std::size_t f) {
      return bytes_of(config, job, with_one_map(config, job, loss_increases, w, f)) > most;
    });
    if (first == features.end()) continue;
    Allocation found = with_one_map(config, job, loss_increases, w, *first);
    if (!best || found.predicted_loss_increase() < best->predicted_loss_increase())
      best = std::move(found);
  }
  if (best) return *best;
  throw std::invalid_argument("the smallest widths have more bytes than there may be");
}

std::optional<Allocation> allocate_without_maps(const ModelConfig& config, const ResolvedJob& job,
                                                const PredictedLossIncreases& loss_increases) {
  const int64_t most = largest_bytes(job.target.allocation->size, stored_bytes(config));
  if (job.stock_output()) {  // the same features in all MLPs
    const std::size_t sizes = possible_inner_widths(config, job, 1).size();
    for (std::size_t size = 0; size < sizes; ++size) {
      Allocation found = with_sizes(config, job, loss_increases, [&](int64_t) { return size; });
      if (bytes_of(config, job, found) <= most) return found;
    }
    return std::nullopt;
  }
  const auto layers = static_cast<std::size_t>(config.num_layers);
  ModelConfig cut = config;
  cut.dtypes = job.output.dtypes;
  std::vector<LossCurve> curves;
  int64_t bytes = 0;  // bytes of the narrowest sublayers, then with the remaining room
  for (int64_t s = 0; s < config.num_sublayers(); ++s) {
    const auto layer = static_cast<std::size_t>(layer_of(s));
    LossCurve& curve = curves.emplace_back();
    curve.loss_increases =
        is_attention(s) ? loss_increases.values.at(layer) : loss_increases.mlps.at(layer);
    for (const int64_t size : possible_inner_widths(config, job, s)) {
      cut.form.intermediate_sizes.assign(layers, size);
      cut.form.value_head_dims.assign(layers, size);
      curve.sizes.push_back(
          sublayer_size(cut, s, config.hidden_size, config.hidden_size, /*folded=*/false).bytes);
    }
    bytes += curve.sizes.back();
  }
  const auto last = [&](int64_t s) {
    return curves.at(static_cast<std::size_t>(s)).sizes.size() - 1;
  };
  const Allocation narrowest = with_sizes(config, job, loss_increases, last);
  const int64_t room = most - bytes_of(config, job, narrowest);
  if (room < 0) return std::nullopt;
  const std::vector<std::size_t> sizes = allocate_by_loss(curves, bytes + room);
  return with_sizes(config, job, loss_increases,
                    [&](int64_t s) { return sizes.at(static_cast<std::size_t>(s)); });
}

ResolvedJob with_allocation(const ResolvedJob& job, const ModelConfig& config,
                            const Allocation& chosen) {
  ResolvedJob known = job;
  known.widths = chosen.widths;
  known.maps.shortcuts.ranks = chosen.shortcut_ranks;
  if (!job.stock_output()) return known;
  known.mlp->allocated = false;
  for (int64_t layer = 0; layer < config.num_layers; ++layer) {
    int64_t& width = config.is_mixture(2 * layer + 1) ? known.mlp->expert_width : known.mlp->width;
    width = chosen.features.at(static_cast<std::size_t>(layer));
  }
  return known;
}

ModelConfig with_features(const ModelConfig& config, const ResolvedJob& job,
                          const Allocation& chosen) {
  if (job.stock_output()) {
    return with_cut_mlps(config, with_allocation(job, config, chosen).mlp);
  }
  ModelConfig cut = config;
  cut.form.intermediate_sizes = chosen.features;
  cut.form.value_head_dims = chosen.values;
  return cut;
}

}  // namespace dotresize
