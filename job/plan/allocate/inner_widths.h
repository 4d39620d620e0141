#pragma once

#include <cstdint>
#include <vector>

#include "job/model/model_config.h"
#include "job/plan/resolved_job.h"

namespace dotresize {

// What a sublayer has between its in_proj and its out_proj, and a job may cut: features of an MLP
// or of each expert (`method.mlp`, `method.allocate`), and channels of value heads
// (`method.allocate` of an output with code of its own; docs/method.md, "Narrower value heads").

/// Channel counts that a value head can be cut to: head_dim, then multiples of a 32nd of it,
/// descending.
std::vector<int64_t> possible_value_dims(const ModelConfig& config);

/// Feature counts that an allocation can cut an MLP, or each of its experts, to: all, then
/// multiples of round_to, descending.
std::vector<int64_t> possible_mlp_widths(const ModelConfig& config, const MlpTarget& target,
                                         int64_t sublayer);

/// possible_value_dims() of an attention, possible_mlp_widths() of an MLP that may be cut; then 0,
/// if the sublayer may go altogether.
std::vector<int64_t> possible_inner_widths(const ModelConfig& config, const ResolvedJob& job,
                                           int64_t sublayer);

/// Numbers that o reads of a token of the dense model.
int64_t attention_features(const ModelConfig& config);

/// Whether the job may cut what the sublayer has inside.
bool may_be_cut(const ResolvedJob& job, int64_t sublayer);
/// Such sublayers among [first, end).
int64_t count_cut_sublayers(const ResolvedJob& job, int64_t first, int64_t end);

/// Of the sums over the numbers that out_proj reads, of a sublayer that may be cut, in float64.
/// Bytes; 0 for others.
int64_t cut_sums_bytes(const ModelConfig& config, const ResolvedJob& job, int64_t sublayer);

}  // namespace dotresize
