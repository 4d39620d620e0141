#pragma once

#include <cstdint>
#include <vector>

#include "job/model/model_config.h"
#include "job/plan/resolved_job.h"

namespace dotresize {

// Inner widths of a sublayer, between its in_proj and its out_proj, that a job may cut: features of
// an MLP or of each expert (`method.mlp`, `method.allocate`), and channels of value heads
// (`method.allocate` with an output that has code of its own; docs/method.md, "Narrower value
// heads").

/// Channel counts that a value head can be cut to: head_dim, then multiples of a 32nd of it,
/// descending.
std::vector<int64_t> possible_value_dims(const ModelConfig& config);

/// Feature counts that an allocation can cut an MLP, or each of its experts, to: all, then
/// multiples of round_to, descending.
std::vector<int64_t> possible_mlp_widths(const ModelConfig& config, const MlpTarget& target,
                                         int64_t sublayer);

/// possible_value_dims() for an attention, possible_mlp_widths() for an MLP that may be cut. Then
/// 0, if the sublayer may be removed as a whole.
std::vector<int64_t> possible_inner_widths(const ModelConfig& config, const ResolvedJob& job,
                                           int64_t sublayer);

/// Number of values per token that o reads in the dense model.
int64_t attention_features(const ModelConfig& config);

/// True if the job may cut the inner width of the sublayer.
bool may_be_cut(const ResolvedJob& job, int64_t sublayer);
/// Number of these sublayers in [first, end).
int64_t count_cut_sublayers(const ResolvedJob& job, int64_t first, int64_t end);

/// Bytes of the float64 sums over the numbers that out_proj reads, if the sublayer may be cut; else
/// 0.
int64_t cut_sums_bytes(const ModelConfig& config, const ResolvedJob& job, int64_t sublayer);

}  // namespace dotresize
