#include <ATen/ATen.h>

#include <utility>

#include "job/model/tensor_table.h"
#include "worker/calibration/units/unit_cut.h"
#include "worker/maps/removal/feature_removal.h"
#include "worker/transformer/weights.h"

namespace dotresize {
namespace {

/// Features that the matrix keeps if the MLP or each expert keeps `size`: a shared expert has
/// others.
int64_t left_in(const CutMatrix& matrix, const CutSublayer& from, int64_t size) {
  return in_proportion(matrix.weight.size(1), size, mlp_width(from.job.config, from.sublayer));
}

at::Tensor add_curve_of_features(const CutSublayer& from, CutMatrix matrix,
                                 const std::vector<int64_t>& sizes,
                                 std::vector<double>& loss_increases) {
  const Removal removal = removal_of_features(std::move(matrix.gram), matrix.weight, matrix.metric,
                                              left_in(matrix, from, sizes.back()));
  for (size_t i = 0; i < sizes.size(); ++i) {
    const int64_t removed = matrix.weight.size(1) - left_in(matrix, from, sizes[i]);
    loss_increases[i] += removal.loss_increases.at(static_cast<size_t>(removed));
  }
  return removal.order;
}

/// Returns what is left of each matrix of the sublayer.
std::vector<CutFeatures> cut_matrices(const CutSublayer& from, int64_t size,
                                      const at::Tensor& known_order,
                                      std::vector<double>& loss_increases) {
  std::vector<CutFeatures> cuts;
  from.for_each_matrix([&](CutMatrix matrix) {
    const int64_t left = left_in(matrix, from, size);
    at::Tensor order;
    if (known_order.defined()) {
      order = known_order[std::ssize(cuts)];
    } else {
      // A GPU copies to pinned memory much faster than to other memory of the host.
      const at::Tensor kept = at::empty_like(
          matrix.gram, at::TensorOptions(at::kCPU).pinned_memory(matrix.gram.is_cuda()));
      kept.copy_(matrix.gram);
      const Removal removal =
          removal_of_features(std::move(matrix.gram), matrix.weight, matrix.metric, left);
      loss_increases.push_back(removal.loss_increases.back());
      order = removal.order;
      matrix.gram = to_device(kept, from.job.device);
    }
    cuts.push_back(features_left(order, std::move(matrix.gram), matrix.weight, left));
  });
  return cuts;
}

/// Returns which MLP of the sublayer the matrix of in_proj at `index` belongs to, 1 for the first;
/// 0 for a router. The gate of a shared expert gets a number behind the last one.
size_t mlp_at(const MlpSpec& mlp, size_t index) {
  if (!mlp.mixture) return 1;
  const auto experts = static_cast<size_t>(mlp.mixture->experts);
  const auto of_each = static_cast<size_t>(mlp.in_matrices());
  const size_t of_all = experts * of_each;
  return index <= of_all ? (index + of_each - 1) / of_each : experts + (index - of_all + 1) / 2;
}

/// Returns the rows of one matrix of gate and up that belong to these features.
at::Tensor rows_of_both(const MlpSpec& mlp, const at::Tensor& features) {
  if (!mlp.interleaved) return at::cat({features, features + mlp.intermediate_size});
  return at::stack({2 * features, 2 * features + 1}, 1).flatten();
}

std::map<std::string, at::Tensor> cut_features(const CutSublayer& from, int64_t size,
                                               const at::Tensor& order,
                                               std::vector<double>& loss_increases) {
  const std::vector<CutFeatures> cuts = cut_matrices(from, size, order, loss_increases);
  const MlpSpec& mlp = from.job.config.mlp(from.sublayer);
  const auto fused = static_cast<size_t>(mlp.fused ? mlp_count(from.job.config, from.sublayer) : 0);
  std::map<std::string, at::Tensor> tensors;
  for (const StoredTensor& stored : sublayer_tensors(from.job.config, from.sublayer)) {
    if (stored.role == TensorRole::kOutProjWeight) {
      tensors[stored.name] = cuts.at(stored.index).weight.to(from.job.fold_dtype).cpu();
      continue;
    }
    if (!is_in_proj(stored)) continue;
    const size_t number = mlp_at(mlp, stored.index);
    if (number == 0 || number > cuts.size()) continue;
    at::Tensor rows = cuts[number - 1].kept;
    if (number <= fused) rows = rows_of_both(mlp, rows);
    tensors[stored.name] = from.job.reader.rows(stored.name, stored.shape, rows);
  }
  return tensors;
}

}  // namespace

constinit const UnitCut kFeaturesCut{.unit = &kFeatures,
                                     .entry = EntryKind{"mlp"},
                                     .trial_entry = EntryKind{"trial-mlp"},
                                     .add_curve = add_curve_of_features,
                                     .cut = cut_features};

}  // namespace dotresize
