#include "job/plan/allocate/allocation.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <iterator>
#include <numeric>
#include <optional>
#include <stdexcept>
#include <utility>

#include "base/errors.h"
#include "job/model/model_size.h"
#include "job/plan/allocate/choices.h"
#include "job/plan/allocate/loss_allocation.h"
#include "job/plan/net_size.h"

namespace dotresize {
namespace {

/// Returns the chosen sizes; `choice` returns the index of a curve's choice.
Allocation with_choices(const ModelConfig& config, const ResolvedJob& job,
                        const std::vector<SublayerCurve>& curves,
                        const std::function<std::size_t(std::size_t curve)>& choice) {
  Allocation found;
  for (std::size_t i = 0; i < curves.size(); ++i) {
    const int64_t sublayer = curves[i].sublayer;
    const auto [unit, size] = choices(config, job, sublayer).at(choice(i));
    found.chosen.push_back({sublayer, unit, size, curves[i].loss_increases.at(choice(i))});
  }
  return found;
}

int64_t bytes_of(const ModelConfig& config, const ResolvedJob& job, const Allocation& allocation) {
  return net_size(with_chosen_sizes(config, job, allocation), job, job.widths).compressed_bytes;
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

/// Returns the bytes of the sublayer with each of its choices. `output`: the dense model with the
/// dtypes of the output; it has the last choice afterwards.
std::vector<int64_t> bytes_of_choices(const ModelConfig& dense, const ResolvedJob& job,
                                      int64_t sublayer, ModelConfig& output) {
  const auto layer = static_cast<std::size_t>(layer_of(sublayer));
  std::vector<int64_t> bytes;
  for (const auto& [unit, size] : choices(dense, job, sublayer)) {
    output.layers[layer] = dense.layers[layer];
    unit->set_size(size, output.layers[layer]);
    bytes.push_back(
        sublayer_size(output, sublayer, output.hidden_size, output.hidden_size, /*folded=*/false)
            .bytes);
  }
  return bytes;
}

/// Chooses one size for all MLPs and one for all experts.
Allocation allocate_alike(const ModelConfig& config, const ResolvedJob& job,
                          const std::vector<SublayerCurve>& curves, int64_t most) {
  const auto is_mixture = [&](std::size_t curve) {
    return config.is_mixture(curves[curve].sublayer);
  };
  std::size_t mlp_sizes = 1;
  std::size_t expert_sizes = 1;
  for (std::size_t i = 0; i < curves.size(); ++i) {
    (is_mixture(i) ? expert_sizes : mlp_sizes) = curves[i].loss_increases.size();
  }
  const auto at = [&](std::size_t of_mlps, std::size_t of_experts) {
    return with_choices(config, job, curves,
                        [&](std::size_t i) { return is_mixture(i) ? of_experts : of_mlps; });
  };
  const auto fits = [&](std::size_t of_mlps, std::size_t of_experts) {
    return bytes_of(config, job, at(of_mlps, of_experts)) <= most;
  };
  std::optional<Allocation> best;
  std::size_t of_experts = expert_sizes - 1;
  for (std::size_t of_mlps = 0; of_mlps < mlp_sizes; ++of_mlps) {
    if (!fits(of_mlps, of_experts)) continue;
    while (of_experts > 0 && fits(of_mlps, of_experts - 1)) --of_experts;
    Allocation found = at(of_mlps, of_experts);
    const bool better = !best || found.predicted_loss_increase() < best->predicted_loss_increase();
    if (better) best = std::move(found);
  }
  if (best) return *best;
  throw std::invalid_argument("the fewest features have more bytes than there may be");
}

}  // namespace

double Allocation::predicted_loss_increase() const {
  return dotresize::predicted_loss_increase(chosen);
}

std::vector<ChosenSize> Allocation::of(const Unit& unit) const {
  std::vector<ChosenSize> found;
  std::ranges::copy_if(chosen, std::back_inserter(found),
                       [&](const ChosenSize& one) { return one.unit == &unit; });
  return found;
}

std::vector<int64_t> sizes_of(const std::vector<ChosenSize>& chosen) {
  std::vector<int64_t> sizes;
  std::ranges::transform(chosen, std::back_inserter(sizes), &ChosenSize::size);
  return sizes;
}

double predicted_loss_increase(const std::vector<ChosenSize>& chosen) {
  return std::accumulate(chosen.begin(), chosen.end(), 0.0, [](double sum, const ChosenSize& one) {
    return sum + one.predicted_loss_increase;
  });
}

void check_allocation_target(const ModelConfig& config, const ResolvedJob& job) {
  const int64_t dense_bytes = stored_bytes(config);
  const int64_t least_bytes = bytes_of(config, job, smallest_sizes(config, job));
  if (least_bytes <= largest_bytes(job.target.allocation->size, dense_bytes)) return;
  const double fraction = static_cast<double>(least_bytes) / static_cast<double>(dense_bytes);
  const double size = job.target.allocation->size;
  const std::string advice =
      config.norms_fold() && !config.has_shared_expert()
          ? fmt::format(
                "a method by name, such as {{name: slicegpt, size: {:.6g}}}, also narrows the "
                "residual stream",
                size)
          : "give a larger size";
  throw InputError(
      "method.size",
      fmt::format("{:.6g} is not available: the fewest features{} leave {} of the dense model's bytes; "
                  "{}",
                  size, job.allocates_values() ? " and value channels" : "", size_text(fraction),
                  advice));
}

std::string allocation_warning(const ModelConfig& config, const ResolvedJob& job) {
  if (!job.target.allocation) return "";
  constexpr double kUseful = 0.55;  // docs/real-models.md
  const double size = job.target.allocation->size;
  const auto dense = static_cast<double>(stored_bytes(config));
  const auto ends = static_cast<double>(end_size(config).bytes);
  const double kept = (size * dense - ends) / (dense - ends);
  if (kept >= kUseful) return "";
  return fmt::format(
      "method.size {:.6g}: embedding and head, {:.0f} % of the model, are not cut, so the layers would "
      "keep {:.0f} % of their bytes; below {:.0f} % published models lose most of what they know, "
      "so give {:.2f} or more, or first take tokens from the model with `dotresize vocabulary`",
      size, 100.0 * ends / dense, 100.0 * std::max(kept, 0.0), 100.0 * kUseful,
      std::ceil(100.0 * (kUseful * (dense - ends) + ends) / dense) / 100.0);
}

Allocation allocate(const ModelConfig& config, const ResolvedJob& job,
                    const std::vector<SublayerCurve>& curves) {
  check_curves(config, job, curves);
  const int64_t most = largest_bytes(job.target.allocation->size, stored_bytes(config));
  if (job.stock_output()) return allocate_alike(config, job, curves, most);
  ModelConfig output = config;
  output.dtypes = job.output.dtypes;
  std::vector<LossCurve> by_bytes;
  int64_t narrowest = 0;  // bytes of these sublayers
  for (const SublayerCurve& curve : curves) {
    by_bytes.push_back(
        {bytes_of_choices(config, job, curve.sublayer, output), curve.loss_increases});
    narrowest += by_bytes.back().sizes.back();
  }
  const int64_t room = most - bytes_of(config, job, smallest_sizes(config, job));
  if (room < 0) throw std::invalid_argument("the smallest sizes have more bytes than there may be");
  const std::vector<std::size_t> sizes = allocate_by_loss(by_bytes, narrowest + room);
  return with_choices(config, job, curves, [&](std::size_t curve) { return sizes.at(curve); });
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
