#pragma once

#include <cstdint>

#include "job/model/model_config.h"
#include "job/plan/resolved_job.h"
#include "job/plan/shard_plan.h"

namespace dotresize {

/// Bytes that a rank holds at the same time. The referenced objects must outlive it.
///
/// The unit of a junction is a float64 matrix [d, d] (square) or [d, k] (rectangle). Gram matrix,
/// costs and eigenvectors U are squares. The plan of the transport, Q and M are rectangles. A
/// junction holds, from one phase to the next (docs/architecture.md, "Memory"):
///   first pass    the Gram matrix, and in the identity basis the costs
///   decomposed    U in the PCA basis: on the host, if a GPU computes
///   second pass   U's float32 copy and the costs
///   solving       the costs and the workspace; then M goes to the journal
/// The report's values of a junction are computed while the next junction is solved.
struct RankMemory {
  const ModelConfig& config;
  const ResolvedJob& job;
  const RankShard& shard;  ///< rank, sublayers and the numbers that it processes at once
  DeviceKind device;       ///< computing device
  Dtype compute;           ///< dtype of weights and microbatches

  // Peaks on the computing device during calibration, by schedule (job/plan/schedule.h).
  int64_t pipeline() const;
  int64_t token_parallel() const;
  int64_t layerwise() const;
  /// Peak without maps. Every schedule ends with this step.
  int64_t folding() const;

  /// Evaluation: each rank's share of the windows through one sublayer after the other. 0 without
  /// evaluation, allocation and healing; the choice of an allocation is checked the same way.
  int64_t evaluation() const;
  /// Healing: a layer that is distilled, with the streams of both models, and then the stage with
  /// its updates; else 0. `config` is the dense model's.
  int64_t healing() const;
  int64_t layer_healing() const;
  /// Passes for the features of the MLPs and their removal (`method.mlp`), and for those of
  /// attentions (`method.allocate`); else 0. `config` is the dense model's.
  int64_t sublayer_cut() const;
  /// One pass for these features and for the junctions, and then the work on the sums
  /// (RankShard::dense_round); else 0.
  int64_t dense_round() const;
  /// Passes that see the tokens in the bases of junctions, and the comparison of two bases
  /// (`method.allocate`); else 0.
  int64_t bases() const;
  /// Sums that are kept until they are cut. 0 on a GPU, where the host keeps them.
  int64_t kept_on_device() const;
  /// Host memory of a rank that computes on a GPU: waiting eigenvectors, kept sums, and weights
  /// that are read and uploaded.
  int64_t host_beside_gpu() const;
  /// Memory of the libraries: libtorch and MPI on the host; the context, cuBLAS, cuSOLVER and NCCL
  /// on a GPU.
  int64_t libraries() const;
};

/// Estimated peak of the host memory of a rank with this shard, with the libraries and without the
/// file cache.
int64_t estimate_peak_memory(const ModelConfig& config, const ResolvedJob& job,
                             const RankShard& shard);
/// Estimated peak of the rank's GPU memory; 0 if the job does not compute on a GPU and may not.
int64_t estimate_peak_device_memory(const ModelConfig& config, const ResolvedJob& job,
                                    const RankShard& shard);

/// True if the rank's budgets have room for RankMemory::sublayer_cut with shard.cuts_at_once
/// sublayers.
bool cut_fits(const ModelConfig& config, const ResolvedJob& job, const RankShard& shard);

/// Number of tokens that all ranks together evaluate at a time. Their stream takes no more than
/// that of the calibration.
int64_t evaluation_tokens_at_once(const ResolvedJob& job, const ModelConfig& config);

}  // namespace dotresize
