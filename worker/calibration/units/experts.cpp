#include <ATen/ATen.h>

#include <algorithm>
#include <numeric>

#include "job/model/tensor_table.h"
#include "worker/calibration/units/unit_cut.h"

namespace dotresize {
namespace {

/// Returns the experts in the order in which they go. Each group loses its cheapest ones, one at a
/// time, in turn with the others.
std::vector<int64_t> removal_order(const MixtureSpec& mixture, const std::vector<double>& costs) {
  const int64_t of_group = mixture.experts / mixture.groups;
  std::vector<std::vector<int64_t>> groups;
  for (int64_t group = 0; group < mixture.groups; ++group) {
    std::vector<int64_t>& experts = groups.emplace_back(static_cast<size_t>(of_group));
    std::iota(experts.begin(), experts.end(), group * of_group);
    std::ranges::stable_sort(experts, {},
                             [&](int64_t expert) { return costs.at(static_cast<size_t>(expert)); });
  }
  std::vector<int64_t> order;
  for (size_t place = 0; place < static_cast<size_t>(of_group); ++place) {
    for (const std::vector<int64_t>& experts : groups) order.push_back(experts[place]);
  }
  return order;
}

/// Returns the source's tensors that become those of the mixture with only the experts in `kept`,
/// ascending, by their names there. Tensors that stay what they are under their name are left out.
std::map<std::string, at::Tensor> with_experts(const CutSublayer& from,
                                               const std::vector<int64_t>& kept) {
  const CalibrationJob& job = from.job;
  const auto left = static_cast<size_t>(std::ssize(kept));
  ModelConfig cut = job.config;
  LayerSpec& layer = cut.layers.at(static_cast<size_t>(layer_of(from.sublayer)));
  const auto experts = static_cast<size_t>(layer.mlp.mixture->experts);
  layer.mlp.mixture->experts = std::ssize(kept);
  const at::Tensor rows = at::tensor(kept, at::kLong);
  // In_proj are the router, gate and up of each expert, and what a shared one has.
  const auto source_index = [&](const StoredTensor& stored) {
    const bool in = is_in_proj(stored);
    if (!in && stored.role != TensorRole::kOutProjWeight &&
        stored.role != TensorRole::kOutProjBias) {
      return stored.index;
    }
    const size_t router = in ? 1 : 0;
    const size_t of_each = in ? static_cast<size_t>(layer.mlp.in_matrices()) : 1;
    if (stored.index < router) return stored.index;
    const size_t place = stored.index - router;
    const size_t expert = place / of_each;
    if (expert >= left) return stored.index + (experts - left) * of_each;
    return router + static_cast<size_t>(kept[expert]) * of_each + place % of_each;
  };
  std::map<std::pair<TensorRole, size_t>, StoredTensor> sources;
  for (const StoredTensor& stored : sublayer_tensors(job.config, from.sublayer)) {
    sources.emplace(std::pair(stored.role, stored.index), stored);
  }
  std::map<std::string, at::Tensor> tensors;
  for (const StoredTensor& stored : sublayer_tensors(cut, from.sublayer)) {
    const StoredTensor& source = sources.at({stored.role, source_index(stored)});
    if (source.name == stored.name && source.shape == stored.shape) continue;
    const bool selects = source.shape != stored.shape;  // router, choice bias
    tensors[stored.name] = selects ? job.reader.rows(source.name, source.shape, rows)
                                   : job.reader.get(source.name, source.shape);
  }
  return tensors;
}

std::map<std::string, at::Tensor> cut_experts(const CutSublayer& from, int64_t size,
                                              const at::Tensor& /*order*/,
                                              std::vector<double>& loss_increases) {
  const MixtureSpec& mixture = *from.job.config.mlp(from.sublayer).mixture;
  std::vector<double> costs;
  from.for_each_matrix([&](const CutMatrix& matrix) { costs.push_back(cost_of_expert(matrix)); });
  const std::vector<int64_t> order = removal_order(mixture, costs);
  std::vector<int64_t> kept(order.end() - size, order.end());
  std::ranges::sort(kept);
  loss_increases.push_back(expert_curve(mixture, costs, {size}).front());
  return with_experts(from, kept);
}

}  // namespace

double cost_of_expert(const CutMatrix& matrix) {
  const at::Tensor error =  // each row is that of an output in which the metric is the identity
      matrix.metric.defined() ? at::matmul(matrix.metric.t(), matrix.weight) : matrix.weight;
  return at::matmul(error, matrix.gram).mul_(error).sum().item<double>();
}

std::vector<double> expert_curve(const MixtureSpec& mixture, const std::vector<double>& costs,
                                 const std::vector<int64_t>& sizes) {
  const std::vector<int64_t> order = removal_order(mixture, costs);
  std::vector<double> loss_increases;
  for (const int64_t size : sizes) {
    double sum = 0.0;
    for (int64_t i = 0; i < mixture.experts - size; ++i) {
      sum += costs[static_cast<size_t>(order[static_cast<size_t>(i)])];
    }
    loss_increases.push_back(sum);
  }
  return loss_increases;
}

constinit const UnitCut kExpertsCut{.unit = &kExperts,
                                    .entry = EntryKind{"experts"},
                                    .trial_entry = EntryKind{"trial-experts"},
                                    .add_curve = nullptr,
                                    .cut = cut_experts};

}  // namespace dotresize
