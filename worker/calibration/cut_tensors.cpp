#include "worker/calibration/cut_tensors.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/errors.h"
#include "job/model/tensor_table.h"
#include "worker/calibration/storage/kept_sums.h"
#include "worker/maps/metric.h"
#include "worker/maps/scoped_threads.h"
#include "worker/transformer/load.h"

namespace dotresize {
namespace {

// [choices] int64, -1: not of the main unit
constexpr char kSizes[] = "widths";
// [matrices, removed parts] int64; a shared expert has another number of parts, so that shorter
// rows end in zeros
constexpr char kOrder[] = "order";

/// Returns the sizes of the choices of this unit.
std::vector<int64_t> sizes_of(const std::vector<Choice>& choices, const Unit& unit) {
  std::vector<int64_t> sizes;
  for (const Choice& choice : choices) {
    if (choice.unit == &unit) sizes.push_back(choice.size);
  }
  return sizes;
}

/// Returns kSizes of these choices.
std::vector<int64_t> main_sizes(const std::vector<Choice>& choices) {
  const Unit* main = choices.front().unit;
  std::vector<int64_t> sizes;
  sizes.reserve(choices.size());
  for (const auto& [unit, size] : choices) sizes.push_back(unit == main ? size : -1);
  return sizes;
}

at::Tensor stacked(std::vector<at::Tensor> rows) {
  int64_t longest = 0;
  for (const at::Tensor& row : rows) longest = std::max(longest, row.size(0));
  for (at::Tensor& row : rows) row = at::constant_pad_nd(row, {0, longest - row.size(0)});
  return at::stack(rows);
}

}  // namespace

at::ScalarType gradients_dtype(const CalibrationJob& job) {
  return job.halves_precision() ? at::kFloat : at::kDouble;
}

std::vector<double> kept_curve(const Journal& curves, int64_t sublayer,
                               const std::vector<Choice>& choices) {
  const std::string entry = entries::kCurve(sublayer);
  const NamedTensors curve = curves.get(entry);
  const int64_t count = std::ssize(choices);
  const at::Tensor increases = kept_tensor(curve, entry, kLossIncreases, at::kDouble, {count});
  const at::Tensor sizes = kept_tensor(curve, entry, kSizes, at::kLong, {count});
  if (!sizes.equal(at::tensor(main_sizes(choices), at::kLong))) {
    throw InputError("the statistics of " + entry + " are of other sizes");
  }
  const auto* data = increases.const_data_ptr<double>();
  return {data, data + count};
}

at::Tensor SublayerCutter::metric(SublayerSums& sums) const {
  at::Tensor fisher;
  if (sums.gradients) {
    sums.gradients->mirror();
    fisher = std::move(sums.gradients->gram);
  }
  for (const EntryKind& kind : from_.gradients) {
    const std::string entry = kind(sums.sublayer);
    const int64_t d = job_.config.hidden_size;
    const at::Tensor kept =
        kept_tensor(from_.curves->get(entry), entry, kGradientSum, gradients_dtype(job_), {d, d});
    const at::Tensor known = to_device(kept, job_.device).to(at::kDouble);
    fisher = fisher.defined() ? fisher.add_(known) : known;
  }
  fisher.div_(static_cast<double>(from_.tokens));
  // The gradients are those of the stream, to which the output is added times this factor.
  const double scale = job_.config.layers.at(layer_of(sums.sublayer)).residual_scale;
  return metric_factor(scale == 1.0 ? fisher : fisher.mul_(scale * scale));
}

CutSublayer SublayerCutter::sublayer(SublayerSums& sums, bool with_metric) const {
  return {job_, sums.sublayer, [&sums, with_metric, this](const auto& visit) {
            const ScopedThreads threads(job_.map.decomposition_threads);
            const at::Tensor L =
                with_metric && job_.map.metric == Metric::kFisher ? metric(sums) : at::Tensor();
            for (const StoredTensor& stored : sublayer_tensors(job_.config, sums.sublayer)) {
              if (stored.role != TensorRole::kOutProjWeight) continue;
              Moments& features = sums.features.at(stored.index);
              features.mirror();
              at::Tensor gram = std::move(features.gram);
              gram.div_(static_cast<double>(from_.tokens));
              const at::Tensor weight =
                  load_rows(job_.reader, stored, 0, stored.shape.at(0), at::kDouble);
              visit(CutMatrix{std::move(gram), to_device(weight, job_.device), L});
            }
          }};
}

std::map<std::string, at::Tensor> SublayerCutter::curve(SublayerSums& sums,
                                                        const std::vector<Choice>& choices) const {
  const CutSublayer from = sublayer(sums, /*with_metric=*/true);
  const Unit& main = *choices.front().unit;
  const std::vector<int64_t> sizes = sizes_of(choices, main);
  const std::vector<int64_t> of_experts = sizes_of(choices, kExperts);
  std::map<const Unit*, std::vector<double>> curves = {{&main, std::vector(sizes.size(), 0.0)}};
  std::vector<double> costs;
  std::vector<at::Tensor> orders;
  from.for_each_matrix([&](CutMatrix matrix) {
    if (!of_experts.empty()) costs.push_back(cost_of_expert(matrix));
    const at::Tensor order = cut_of(main).add_curve(from, std::move(matrix), sizes, curves[&main]);
    if (order.defined()) orders.push_back(order);
  });
  if (!of_experts.empty()) {
    curves[&kExperts] = expert_curve(*job_.config.mlp(sums.sublayer).mixture, costs, of_experts);
  }
  std::map<const Unit*, size_t> next;
  std::vector<double> loss_increases;
  loss_increases.reserve(choices.size());
  for (const Choice& choice : choices) {
    loss_increases.push_back(curves.at(choice.unit).at(next[choice.unit]++));
  }
  std::map<std::string, at::Tensor> found = {
      {kLossIncreases, at::tensor(loss_increases, at::kDouble)},
      {kSizes, at::tensor(main_sizes(choices), at::kLong)}};
  if (!orders.empty()) found[kOrder] = stacked(std::move(orders));
  return found;
}

std::map<std::string, at::Tensor> SublayerCutter::cut(SublayerSums& sums,
                                                      const Choice& choice) const {
  std::vector<double> loss_increases;
  at::Tensor order;
  const bool of_main = choice.unit == &main_unit(sums.sublayer);
  if (of_main && (choice.size == 0 || from_.known_order)) {
    const auto curve = from_.curves->get(entries::kCurve(sums.sublayer));
    if (curve.contains(kOrder)) order = curve.at(kOrder);
    if (choice.size == 0 || order.defined()) {
      const at::Tensor here = curve.at(kSizes) == choice.size;
      loss_increases.push_back(curve.at(kLossIncreases).masked_select(here).item<double>());
    }
  }
  std::map<std::string, at::Tensor> tensors;
  if (choice.size > 0) {
    const CutSublayer from = sublayer(sums, /*with_metric=*/!order.defined());
    tensors = cut_of(*choice.unit).cut(from, choice.size, order, loss_increases);
  }
  tensors[kLossIncrease] = at::tensor(loss_increases, at::kDouble);
  tensors[kSeenTokens] = at::tensor(sums.tokens, at::kLong);
  return tensors;
}

}  // namespace dotresize
