#include "worker/calibration/cut_tensors.h"

#include <ATen/ATen.h>

#include <utility>

#include "job/model/tensor_table.h"
#include "worker/maps/metric.h"
#include "worker/maps/removal/feature_removal.h"
#include "worker/maps/removal/value_removal.h"
#include "worker/maps/scoped_threads.h"
#include "worker/transformer/load.h"

namespace dotresize {
namespace {

constexpr char kWidths[] = "widths";  // [possible widths] int64
constexpr char kOrder[] = "order";    // [matrices, removed features] int64, MLPs only

bool is_in_proj(const StoredTensor& stored) {
  return stored.role == TensorRole::kInProjWeight || stored.role == TensorRole::kInProjBias;
}

/// Reads the weight or bias that holds v as its last rows, and multiplies these rows by `turns`.
/// Other rows are unchanged.
at::Tensor with_turned_values(const CalibrationJob& job, const StoredTensor& stored,
                              const at::Tensor& turns) {
  const at::Tensor all = load_rows(job.reader, stored, 0, stored.shape.at(0), at::kDouble);
  const int64_t heads = turns.size(0);
  const int64_t others = all.size(0) - heads * turns.size(1);
  const at::Tensor values = all.narrow(0, others, all.size(0) - others);
  const at::Tensor turned =
      at::matmul(turns.mT(), values.reshape({heads, turns.size(1), -1}).to(turns.device())).cpu();
  std::vector<int64_t> shape = stored.shape;
  shape[0] = heads * turns.size(2);
  return at::cat({all.narrow(0, 0, others), turned.reshape(shape)}).to(job.fold_dtype);
}

}  // namespace

at::Tensor SublayerCutter::metric(SublayerSums& sums) const {
  at::Tensor fisher;
  if (sums.gradients) {
    sums.gradients->mirror();
    fisher = std::move(sums.gradients->gram);
  }
  for (const EntryKind& kind : from_.gradients) {
    const at::Tensor kept = from_.curves->get(kind(sums.sublayer)).at(kGradientSum);
    const at::Tensor known = to_device(kept, job_.device).to(at::kDouble);
    fisher = fisher.defined() ? fisher.add_(known) : known;
  }
  return metric_factor(fisher.div_(static_cast<double>(from_.tokens)));
}

void SublayerCutter::for_each_out_proj(
    SublayerSums& sums,
    const std::function<void(at::Tensor, const at::Tensor&, const at::Tensor&)>& visit) const {
  const ScopedThreads threads(job_.map.decomposition_threads);
  const at::Tensor metric_factor =
      job_.map.metric == Metric::kFisher && !has_order(sums.sublayer) ? metric(sums) : at::Tensor();
  for (const StoredTensor& stored : sublayer_tensors(job_.config, sums.sublayer)) {
    if (stored.role != TensorRole::kOutProjWeight) continue;
    Moments& features = sums.features.at(stored.index);
    features.mirror();
    at::Tensor gram = std::move(features.gram);
    gram.div_(static_cast<double>(from_.tokens));
    const at::Tensor out_proj =
        to_device(load_rows(job_.reader, stored, 0, stored.shape.at(0), at::kDouble), job_.device);
    visit(std::move(gram), out_proj, metric_factor);
  }
}

std::map<std::string, at::Tensor> SublayerCutter::curve(SublayerSums& sums,
                                                        const std::vector<int64_t>& widths) const {
  std::vector<double> loss_increases(widths.size(), 0.0);
  std::vector<at::Tensor> orders;
  const auto add = [&](const std::vector<double>& of_steps) {
    for (size_t i = 0; i < widths.size(); ++i) {
      loss_increases[i] += of_steps.at(static_cast<size_t>(widths.front() - widths[i]));
    }
  };
  const bool attends = is_attention(sums.sublayer);
  const AttentionSpec& attention = job_.config.attention(sums.sublayer);
  const AttentionHeads heads{attention.num_heads, attention.num_kv_heads};
  for_each_out_proj(sums, [&](at::Tensor gram, const at::Tensor& W, const at::Tensor& metric) {
    if (attends) {
      add(value_removal_loss_increases(std::move(gram), W, metric, heads, widths.back()));
      return;
    }
    const Removal removal = removal_of_features(std::move(gram), W, metric, widths.back());
    add(removal.loss_increases);
    orders.push_back(removal.order);
  });
  std::map<std::string, at::Tensor> found = {
      {kLossIncreases, at::tensor(loss_increases, at::kDouble)},
      {kWidths, at::tensor(widths, at::kLong)}};
  if (!attends) found[kOrder] = at::stack(orders);
  return found;
}

std::map<std::string, at::Tensor> SublayerCutter::cut_features(
    SublayerSums& sums, int64_t width, const at::Tensor& known_order,
    std::vector<double>& loss_increases) const {
  std::vector<CutFeatures> cuts;
  for_each_out_proj(sums, [&](at::Tensor gram, const at::Tensor& down, const at::Tensor& metric) {
    at::Tensor order;
    if (!known_order.defined()) {
      const at::Tensor kept = gram.to(at::kCPU, /*non_blocking=*/false, /*copy=*/true);
      const Removal removal = removal_of_features(std::move(gram), down, metric, width);
      loss_increases.push_back(removal.loss_increases.back());
      order = removal.order;
      gram = to_device(kept, job_.device);
    } else {
      order = known_order[std::ssize(cuts)];
    }
    cuts.push_back(features_left(order, std::move(gram), down, width));
  });
  const bool mixture = job_.config.is_mixture(sums.sublayer);
  std::map<std::string, at::Tensor> tensors;
  for (const StoredTensor& stored : sublayer_tensors(job_.config, sums.sublayer)) {
    if (stored.role == TensorRole::kOutProjWeight) {
      tensors[stored.name] = cuts.at(stored.index).weight.to(job_.fold_dtype).cpu();
      continue;
    }
    const bool router = mixture && stored.index == 0;
    if (!is_in_proj(stored) || router) continue;
    // In a mixture the router comes first, then gate and up of each expert.
    at::Tensor rows = cuts.at(mixture ? (stored.index - 1) / 2 : 0).kept;
    if (job_.config.mlp(sums.sublayer).fused) {
      rows = at::cat({rows, rows + mlp_width(job_.config, sums.sublayer)});
    }
    tensors[stored.name] = job_.reader.get(stored.name, stored.shape).index_select(0, rows);
  }
  return tensors;
}

std::map<std::string, at::Tensor> SublayerCutter::cut_values(
    SublayerSums& sums, int64_t width, std::vector<double>& loss_increases) const {
  const AttentionSpec& attention = job_.config.attention(sums.sublayer);
  const AttentionHeads heads{attention.num_heads, attention.num_kv_heads};
  CutValues cut;
  for_each_out_proj(sums, [&](at::Tensor gram, const at::Tensor& o, const at::Tensor& metric) {
    cut = remove_values(std::move(gram), o, metric, heads, width);
    loss_increases.push_back(cut.predicted_loss_increase);
  });
  const size_t value_part = attention.fused ? 0 : 2;  // q, k, v
  std::map<std::string, at::Tensor> tensors;
  for (const StoredTensor& stored : sublayer_tensors(job_.config, sums.sublayer)) {
    if (stored.role == TensorRole::kOutProjWeight) {
      tensors[stored.name] = cut.weight.to(job_.fold_dtype).cpu();
    } else if (is_in_proj(stored) && stored.index == value_part) {
      tensors[stored.name] = with_turned_values(job_, stored, cut.turns);
    }
  }
  return tensors;
}

std::map<std::string, at::Tensor> SublayerCutter::cut(SublayerSums& sums, int64_t width) const {
  std::vector<double> loss_increases;
  std::map<std::string, at::Tensor> tensors;
  at::Tensor order;
  if (width == 0 || has_order(sums.sublayer)) {
    const auto known = from_.curves->get(entries::kCurve(sums.sublayer));
    const at::Tensor here = known.at(kWidths) == width;
    loss_increases.push_back(known.at(kLossIncreases).masked_select(here).item<double>());
    if (width > 0) order = known.at(kOrder);
  }
  if (width > 0) {
    tensors = is_attention(sums.sublayer) ? cut_values(sums, width, loss_increases)
                                          : cut_features(sums, width, order, loss_increases);
  }
  tensors[kLossIncrease] = at::tensor(loss_increases, at::kDouble);
  tensors[kSeenTokens] = at::tensor(sums.tokens, at::kLong);
  return tensors;
}

}  // namespace dotresize
