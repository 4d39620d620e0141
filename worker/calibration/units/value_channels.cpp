#include <ATen/ATen.h>

#include <utility>

#include "job/model/tensor_table.h"
#include "worker/calibration/units/unit_cut.h"
#include "worker/maps/removal/value_removal.h"
#include "worker/transformer/load.h"

namespace dotresize {
namespace {

AttentionHeads heads_of(const CutSublayer& from) {
  const AttentionSpec& attention = from.job.config.attention(from.sublayer);
  return {attention.num_heads, attention.num_kv_heads};
}

at::Tensor add_curve_of_values(const CutSublayer& from, CutMatrix matrix,
                               const std::vector<int64_t>& sizes,
                               std::vector<double>& loss_increases) {
  const std::vector<double> of_steps = value_removal_loss_increases(
      std::move(matrix.gram), matrix.weight, matrix.metric, heads_of(from), sizes.back());
  for (size_t i = 0; i < sizes.size(); ++i) {
    loss_increases[i] += of_steps.at(static_cast<size_t>(sizes.front() - sizes[i]));
  }
  return {};
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

std::map<std::string, at::Tensor> cut_values(const CutSublayer& from, int64_t size,
                                             const at::Tensor& /*order*/,
                                             std::vector<double>& loss_increases) {
  CutValues cut;
  from.for_each_matrix([&](CutMatrix matrix) {
    cut = remove_values(std::move(matrix.gram), matrix.weight, matrix.metric, heads_of(from), size);
    loss_increases.push_back(cut.predicted_loss_increase);
  });
  const size_t value_part = from.job.config.attention(from.sublayer).fused ? 0 : 2;  // q, k, v
  std::map<std::string, at::Tensor> tensors;
  for (const StoredTensor& stored : sublayer_tensors(from.job.config, from.sublayer)) {
    if (stored.role == TensorRole::kOutProjWeight) {
      tensors[stored.name] = cut.weight.to(from.job.fold_dtype).cpu();
    } else if (is_in_proj(stored) && stored.index == value_part) {
      tensors[stored.name] = with_turned_values(from.job, stored, cut.turns);
    }
  }
  return tensors;
}

}  // namespace

constinit const UnitCut kValueChannelsCut{.unit = &kValueChannels,
                                          .entry = EntryKind{"values"},
                                          .trial_entry = EntryKind{"trial-values"},
                                          .add_curve = add_curve_of_values,
                                          .cut = cut_values};

}  // namespace dotresize
