#include "worker/calibration/cut_tensors.h"

#include <ATen/ATen.h>

#include "job/model/tensor_table.h"
#include "worker/transformer/load.h"

namespace dotresize {
namespace {

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

std::map<std::string, at::Tensor> tensors_of_cut_mlp(const CalibrationJob& job, int64_t sublayer,
                                                     const std::vector<CutFeatures>& cuts) {
  const bool mixture = job.config.is_mixture(sublayer);
  std::map<std::string, at::Tensor> tensors;
  for (const StoredTensor& stored : sublayer_tensors(job.config, sublayer)) {
    if (stored.role == TensorRole::kOutProjWeight) {
      tensors[stored.name] = cuts.at(stored.index).weight.to(job.fold_dtype).cpu();
      continue;
    }
    const bool router = mixture && stored.index == 0;
    if (!is_in_proj(stored) || router) continue;
    // In a mixture the router comes first, then gate and up of each expert.
    at::Tensor rows = cuts.at(mixture ? (stored.index - 1) / 2 : 0).kept;
    if (job.config.fused_in_proj) {
      rows = at::cat({rows, rows + mlp_width(job.config, sublayer)});
    }
    tensors[stored.name] = job.reader.get(stored.name, stored.shape).index_select(0, rows);
  }
  return tensors;
}

std::map<std::string, at::Tensor> tensors_of_cut_attention(const CalibrationJob& job,
                                                           int64_t sublayer, const CutValues& cut) {
  const size_t value_part = job.config.fused_in_proj ? 0 : 2;  // q, k, v
  std::map<std::string, at::Tensor> tensors;
  for (const StoredTensor& stored : sublayer_tensors(job.config, sublayer)) {
    if (stored.role == TensorRole::kOutProjWeight) {
      tensors[stored.name] = cut.weight.to(job.fold_dtype).cpu();
    } else if (is_in_proj(stored) && stored.index == value_part) {
      tensors[stored.name] = with_turned_values(job, stored, cut.turns);
    }
  }
  return tensors;
}

}  // namespace dotresize
