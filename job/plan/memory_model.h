#pragma once

#include <cstdint>

#include "job/model/model_config.h"
#include "job/plan/resolved_job.h"
#include "job/plan/shard_plan.h"
#include "job/plan/work_estimate.h"

namespace dotresize {

/// What the memory estimates of host and device have in common, in bytes unless said otherwise.
/// References outlive it.
struct MemoryModel {
  static constexpr int64_t kFloat = 4;
  static constexpr int64_t kDouble = 8;

  const ModelConfig& config;
  const ResolvedJob& job;
  const RankShard& shard;
  int64_t d = config.hidden_size;
  int64_t seqlen = expected_seqlen(job, config);

  bool first() const { return shard.first_sublayer == 0; }
  bool last() const { return shard.end_sublayer == config.num_sublayers(); }
  bool has_vocabulary() const { return first() || last(); }

  /// Width of all query heads, and of all key or value heads.
  int64_t attention_width() const { return config.num_heads * config.head_dim; }
  int64_t key_width() const { return config.num_kv_heads * config.head_dim; }
  /// Of a microbatch.
  int64_t tokens() const;
  /// Number of them that the stage writes and that get a map.
  int64_t mapped_junctions() const;
  /// Groups of several junctions with one map of which the stage has one or more.
  int64_t shared_groups() const;

  int64_t stage_weights(Dtype compute) const { return shard.parameters * size_in_bytes(compute); }
  /// Of a number in the fold dtype.
  int64_t fold_bytes() const { return folds_in_float64(job.output_dtype) ? kDouble : kFloat; }
  /// Parameters of the largest sublayer, as in sublayer_parameters.
  int64_t largest_sublayer(bool folded) const;
  int64_t moments_of_junction() const;
  /// The residual stream of a rank's share of the samples, narrow and of full width.
  int64_t stream() const;
};

}  // namespace dotresize
