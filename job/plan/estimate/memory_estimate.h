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

  /// Evaluation: each rank's share of the windows through one sublayer after the other. 0 without
  /// evaluation, allocation and healing; the trial of an allocation is evaluated the same way.
  int64_t evaluation() const;
  /// Healing: a layer that is distilled, with the streams of both models, and then the stage with
  /// its updates; else 0. `config` is the dense model's.
  int64_t healing() const;
  int64_t layer_healing() const;
  /// Passes for the features of the MLPs and their removal (`method.mlp`), and for those of
  /// attentions (`method.allocate`); else 0. `config` is the dense model's.
  int64_t sublayer_cut() const;
  /// Host memory of a rank that computes on a GPU: waiting eigenvectors, kept sums, and weights
  /// that are read and uploaded.
  int64_t host_beside_gpu() const;
  /// Memory of the libraries: libtorch and MPI on the host; the context, cuBLAS, cuSOLVER and NCCL
  /// on a GPU.
  int64_t libraries() const;
};

/// Sizes of one rank that the phases are made of, in bytes unless a comment says otherwise.
struct RankSizes {
  explicit RankSizes(const RankMemory& rank);

  /// Bytes of a Gram matrix while it is summed: packed in blocks of rows (worker/maps/moments.cpp).
  int64_t gram_sum(int64_t width) const;
  /// Weights of the rank's sublayers before `end`, and with gradients of the head.
  int64_t stage_weights(int64_t end) const;
  /// Parameters of a sublayer with its in_proj, which is most of it, folded, and its out_proj not.
  int64_t half_folded(int64_t sublayer) const;
  int64_t insides() const;
  int64_t at_junction() const;
  /// Peak of a pass over the tokens, beside weights and sums.
  int64_t microbatch() const;
  int64_t graph_bytes(int64_t sublayer) const;
  int64_t way_back() const;
  /// Peak of the way back, beside weights, sums and microbatch; 0 without gradients.
  int64_t backward() const { return gradients ? way_back() : 0; }
  int64_t feature_sums(int64_t at_once) const;
  /// Bytes for the sums of all the rank's sublayers, if they are kept.
  int64_t kept_sums() const;
  int64_t at_features() const;
  int64_t removing() const;
  int64_t solving() const;
  int64_t junction() const;
  int64_t describing() const;
  int64_t aligning() const;
  /// Describing a junction while something else is computed; 0 if nothing overlaps.
  int64_t described_beside() const { return r.shard.overlaps ? describing() : 0; }
  /// Peak without maps. Every schedule ends with this step.
  int64_t folding() const;

  const RankMemory& r;
  const int64_t d;
  const int64_t k;
  const int64_t seqlen;
  const int64_t compute_bytes;
  const int64_t fold_bytes;  ///< bytes of a number in folding
  const bool aligns;         ///< true if maps are rotated into each other
  const bool turns_stock;    ///< true if there is one map, rotated as a stock output needs it
  const bool turns_norm;     ///< true if the one map is rotated for a tied head
  const bool on_gpu;
  const bool pca;
  const bool transport;
  const bool second_pass;
  const bool gradients;
  const bool oblique;
  const bool has_head;
  /// Same as CalibrationJob::halves_precision. Ranks that share the tokens of a junction do not
  /// pack.
  const bool packed;
  const int64_t square;
  const int64_t rectangle;
  const int64_t tokens;  ///< number of tokens in a microbatch
  const int64_t microbatches;
  /// Residual stream of a microbatch, and of a rank's share of the windows.
  const int64_t microbatch_stream;
  const int64_t share_stream;
  const int64_t metric;  ///< factor of the metric and Gram matrix, which wait beside U
  const int64_t eigen;
  // Sums of a junction in its first pass, as they are taken and unpacked, and in its second pass.
  const int64_t first_sums;
  const int64_t whole_first_sums;
  const int64_t second_sums;
  const int64_t waiting_to_solve;  ///< bytes that a junction of a group holds after the passes
  const int64_t junctions;         ///< number of junctions of a group on this rank
  /// Number of sublayers on this rank that are cut at once, each with the Gram matrix of its
  /// features.
  const int64_t cut_at_once;
  const int64_t features;  ///< largest number of features of one MLP, one expert or one attention
  // Parameters of the largest sublayer of any rank.
  const int64_t dense_sublayer;
  const int64_t folded_sublayer;
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

}  // namespace dotresize
