#pragma once

#include <cstdint>

#include "job/model/model_config.h"
#include "job/plan/resolved_job.h"
#include "job/plan/shard_plan.h"
#include "job/plan/token_windows.h"

namespace dotresize {

/// What the memory estimates of host and device have in common, in bytes unless said otherwise.
/// References outlive it.
struct MemoryModel {
  static constexpr int64_t kFloat = 4;
  static constexpr int64_t kDouble = 8;

  const ModelConfig& config;
  const ResolvedJob& job;
  const RankShard& shard;
  Dtype compute;  ///< of weights and microbatches
  int64_t d = config.hidden_size;
  int64_t k = job.widths.largest();
  int64_t seqlen = expected_seqlen(job, config);

  bool first() const { return shard.first_sublayer == 0; }
  bool last() const { return shard.end_sublayer == config.num_sublayers(); }
  bool has_vocabulary() const { return first() || last(); }

  /// Width of all query heads, and of all key or value heads.
  int64_t attention_width() const { return config.num_heads * config.head_dim; }
  int64_t key_width() const { return config.num_kv_heads * config.head_dim; }
  /// Of a microbatch.
  int64_t tokens() const { return microbatch_samples(seqlen) * seqlen; }
  /// Number of them that the stage writes and that get a map.
  int64_t mapped_junctions() const;

  int64_t compute_bytes() const { return size_in_bytes(compute); }
  int64_t stage_weights() const { return shard.parameters * compute_bytes(); }
  /// Of the full width, as it is read for token_parallel.
  int64_t embedding() const { return config.vocab_size * d * kFloat; }
  /// Of a number in the fold dtype.
  int64_t fold_bytes() const { return folds_in_float64(job.output_dtype) ? kDouble : kFloat; }
  /// Parameters of the largest sublayer, as in sublayer_parameters.
  int64_t largest_sublayer(bool folded) const;
  /// float64 [d, d] each: the Gram matrix; with transport the costs; pca the eigenvectors, and with
  /// transport their float32 copy for the rotation.
  int64_t moments_of_junction() const;
  /// Those of the junctions of the stage, and of the groups of several junctions with one map of
  /// which the stage has one or more.
  int64_t moments_of_stage() const;
  /// The residual stream of a rank's share of the samples, narrow and of full width.
  int64_t stream() const;

 private:
  int64_t shared_groups() const;
};

}  // namespace dotresize
