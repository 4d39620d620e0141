#pragma once

#include <cstdint>

#include "job/model/model_config.h"
#include "job/plan/resolved_job.h"
#include "job/plan/shard_plan.h"

namespace dotresize {

/// What a rank holds at the same time, in bytes unless said otherwise. References outlive it.
///
/// The unit of a junction is a float64 matrix [d, d] (square) or [d, k] (rectangle): Gram matrix,
/// costs and eigenvectors U are squares; the plan of the transport, Q and M are rectangles. A
/// junction holds, from one phase to the next (docs/architecture.md, "Memory"):
///   first pass    the Gram matrix, and in the identity basis the costs
///   decomposed    U in the PCA basis: on the host, if a GPU computes
///   second pass   U's float32 copy and the costs
///   solving       the costs and the workspace; then M goes to the journal
/// and while the next junction is solved what the report wants to know of this one is computed.
struct RankMemory {
  const ModelConfig& config;
  const ResolvedJob& job;
  const RankShard& shard;  ///< rank, sublayers and what it has at once
  DeviceKind device;       ///< that computes
  Dtype compute;           ///< of weights and microbatches

  // By schedule (job/plan/schedule.h): the most that the computing device holds during calibration.
  int64_t pipeline() const;
  int64_t token_parallel() const;
  int64_t layerwise() const;
  /// Without maps: what every schedule ends with.
  int64_t folding() const;

  /// Each rank's share of the windows through one sublayer after the other; 0 without evaluation
  /// and allocation, whose choice is checked likewise.
  int64_t evaluation() const;
  /// What `heal` holds: a layer that is distilled, with the streams of both models, and then the
  /// stage with its updates; else 0. `config` is the dense model's.
  int64_t healing() const;
  int64_t layer_healing() const;
  /// What the passes for the features of the MLPs and their removal hold (`method.mlp`), and for
  /// those of attentions (`method.allocate`); else 0. `config` is the dense model's.
  int64_t sublayer_cut() const;
  /// What one pass for these features and for the junctions holds, and then what is made of the
  /// sums (RankShard::dense_round); else 0.
  int64_t dense_round() const;
  /// What the tokens are seen with in the bases of junctions, and two bases are compared with
  /// (`method.allocate`); else 0.
  int64_t bases() const;
  /// Sums that are kept until they are cut; on a GPU 0, which keeps them on the host.
  int64_t kept_on_device() const;
  /// Of a rank that computes on a GPU: the eigenvectors that wait there, and what is read and
  /// uploaded.
  int64_t host_beside_gpu() const;
  /// The libraries' own: on the host libtorch and MPI, on a GPU the context, cuBLAS, cuSOLVER and
  /// NCCL.
  int64_t libraries() const;
};

/// The most memory that a rank with this shard needs at a time, estimated, that of the libraries
/// included, without the file cache. Of the host; and of the rank's GPU, if the job computes on one
/// or may (0 otherwise).
int64_t estimate_peak_memory(const ModelConfig& config, const ResolvedJob& job,
                             const RankShard& shard);
int64_t estimate_peak_device_memory(const ModelConfig& config, const ResolvedJob& job,
                                    const RankShard& shard);

/// Whether the rank's budgets have room for RankMemory::sublayer_cut with so many sublayers at
/// once.
bool cut_fits(const ModelConfig& config, const ResolvedJob& job, const RankShard& shard);

/// Tokens that all ranks together evaluate at a time, so that their stream takes no more than that
/// of the calibration.
int64_t evaluation_tokens_at_once(const ResolvedJob& job, const ModelConfig& config);

}  // namespace dotresize
