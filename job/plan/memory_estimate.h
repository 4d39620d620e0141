#pragma once

#include <cstdint>
#include <string>

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

/// What a rank holds in host memory, in bytes.
struct HostMemory : MemoryModel {
  /// Activations of one microbatch through a sublayer.
  int64_t microbatch() const;
  /// float64: 4 matrices [d, d] for the eigenvectors or the transport.
  int64_t workspace() const { return 4 * kDouble * d * d; }
  /// The largest sublayer (a mixture of experts with all of them), or the vocabulary table of the
  /// ends, in the fold dtype (maps/fold.h), before and after, and once more while it is written; on
  /// a GPU once more in pinned memory instead.
  int64_t folding() const;
  /// The job's, which runs as a pipeline: the stage's weights and three microbatches.
  int64_t evaluation() const;
};

/// The most host memory, in bytes, that a rank with this shard needs at a time, without that of the
/// libraries and of the file cache. If the ranks compute on GPUs the host has nothing but what is
/// read and folded. Reads first_sublayer, end_sublayer and parameters.
int64_t estimate_peak_memory(const ModelConfig& config, const ResolvedJob& job,
                             const RankShard& shard);

/// What a rank holds in the memory of its GPU, in bytes.
struct DeviceMemory : MemoryModel {
  /// The stream (float32): received, computed, sent; normed and as an update, both also in the
  /// compute dtype, in which the insides of the sublayer are; the costs' rotated copy and its
  /// float16 form; two float64 matrices [d, d] for the costs' sample (kernels/l1_cost.h) or
  /// their rounding.
  int64_t microbatch() const;
  /// float64: 5 matrices [d, d] (the matrix, a copy that becomes the eigenvectors, cuSOLVER's two
  /// and one to order them by).
  int64_t eigenvectors() const { return 5 * kDouble * d * d; }
  /// The larger of the eigenvectors and, float64, 7 matrices [d, k] for the transport (costs as
  /// selected, scaled and divided by lambda, the kernel matrix before and after absorption, two for
  /// log-sum-exp).
  int64_t workspace() const;
  /// M and M_inv, float64 [d, k].
  int64_t map() const { return 2 * kDouble * d * k; }
  /// In the fold dtype (maps/fold.h), with both maps: a sublayer as it was read, the one that it
  /// becomes, the next one, and `written` numbers while they are written.
  int64_t fold(int64_t written) const;
  /// Writes the last sublayer or the narrowed vocabulary table.
  int64_t fold_of_stage() const;
  /// The job's, which runs as a pipeline: the stage's weights and a microbatch.
  int64_t evaluation() const { return job.evaluation ? stage_weights() + microbatch() : 0; }

 private:
  int64_t insides_of_sublayer() const;
  int64_t costs() const;
};

/// The most memory of its GPU, in bytes, that a rank with this shard needs at a time, computing in
/// `compute`; without that of the libraries (CUDA, cuBLAS, cuSOLVER and NCCL take about 1 GiB) and
/// what the allocator loses to fragments. Reads first_sublayer, end_sublayer and parameters.
int64_t estimate_peak_device_memory(const ModelConfig& config, const ResolvedJob& job,
                                    const RankShard& shard, Dtype compute);

/// What to say to a rank with this shard whose GPU has so much free memory; empty if the estimate
/// fits, or there is none.
std::string device_memory_warning(const RankShard& shard, int64_t free_bytes);

}  // namespace dotresize
