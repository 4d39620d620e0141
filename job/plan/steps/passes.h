#pragma once

#include <cstdint>
#include <vector>

#include "job/model/model_config.h"
#include "job/plan/block_sizes.h"
#include "job/plan/resolved_job.h"
#include "job/plan/shards/rank_shard.h"

namespace dotresize {

// Costs of running tokens through sublayers, forward and back. Most steps of a job do that.

/// Number as the counts and times have it.
inline double number(int64_t value) { return static_cast<double>(value); }

/// Calls visit(sublayer) for each sublayer of the rank.
template <class Visit>
void for_each_sublayer(const RankShard& shard, const Visit& visit) {
  for (int64_t s = shard.first_sublayer; s < shard.end_sublayer; ++s) visit(s);
}

/// A rank of a job on its host or its GPU. The referenced objects must outlive it.
struct RankOnDevice {
  const ModelConfig& config;
  const ResolvedJob& job;
  const RankShard& shard;  ///< rank, sublayers and the numbers that it processes at once
  DeviceKind device;       ///< computing device
  Dtype compute;           ///< dtype of weights and microbatches
};

/// Sizes of one rank that the memory of several steps is made of, in bytes unless a comment says
/// otherwise.
struct RankSizes : RankOnDevice {
  explicit RankSizes(const RankOnDevice& rank);

  /// Bytes of a Gram matrix while it is summed: packed in blocks of rows (worker/maps/moments.cpp).
  int64_t gram_sum(int64_t width) const;
  int64_t dense_parameters(int64_t sublayer) const;
  /// Parameters of a sublayer with its in_proj, which is most of it, folded, and its out_proj not.
  int64_t half_folded(int64_t sublayer) const;
  /// Weights of the rank's sublayers before `end`, and with gradients of the head.
  int64_t stage_weights(int64_t end) const;
  int64_t insides() const;
  int64_t at_junction() const;
  /// Peak of a pass over the tokens, beside weights and sums.
  int64_t microbatch() const;
  int64_t graph_bytes(int64_t sublayer) const;
  int64_t way_back() const;
  /// Peak of the way back, beside weights, sums and microbatch; 0 without gradients.
  int64_t backward() const { return gradients ? way_back() : 0; }

  const int64_t d;
  const int64_t k;
  const int64_t seqlen;
  const int64_t compute_bytes;
  const int64_t fold_bytes;  ///< bytes of a number in folding
  const bool on_gpu;
  const bool gradients;
  const bool oblique;
  const bool has_head;
  /// Same as CalibrationJob::halves_precision. Ranks that share the tokens of a junction do not
  /// pack.
  const bool packed;
  const int64_t square;     ///< float64 matrix [d, d]
  const int64_t rectangle;  ///< float64 matrix [d, k]
  const int64_t tokens;     ///< number of tokens in a microbatch
  const int64_t microbatches;
  /// Residual stream of a microbatch, and of a rank's share of the windows.
  const int64_t microbatch_stream;
  const int64_t share_stream;
  // Parameters of the largest sublayer of any rank.
  const int64_t dense_sublayer;
  const int64_t folded_sublayer;
};

/// Widths of a sublayer's two junctions, and the multiplications per token of its skip path.
struct SublayerWidths {
  int64_t in = 0;
  int64_t out = 0;
  int64_t shortcut = 0;
};

/// Returns the widths of a sublayer of the model, dense or compressed.
SublayerWidths widths_of(const ModelConfig& config, int64_t sublayer);

/// Cost of the way back of a pass that takes gradients, in forward passes: a sublayer runs forward
/// again (Checkpoints), and each of its products has one for the gradient of its input.
inline int64_t passes_back(const ResolvedJob& job) { return job.gradients() ? 2 : 0; }

/// Work for tokens on their way through a sublayer.
struct ForwardCounts {
  double gemm = 0.0;       ///< floating-point operations in the compute dtype
  double shortcut = 0.0;   ///< likewise, in float32
  double attention = 0.0;  ///< likewise; the pairs that a causal mask hides are not counted
  double bytes = 0.0;      ///< bytes that all other operations read and write
};

ForwardCounts forward_counts(const ModelConfig& config, int64_t sublayer,
                             const SublayerWidths& widths, double tokens, int64_t seqlen,
                             Dtype compute);

/// Work for the gradient of a sublayer's input, from that of its forward pass.
ForwardCounts backward_counts(const ForwardCounts& forward);

/// Work for a head of this width and the log-likelihood. Sets `gemm` and `bytes`.
ForwardCounts head_counts(const ModelConfig& config, int64_t width, double tokens, Dtype compute);

/// Operations per token to add it to a Gram matrix, in blocks of rows that cover an eighth more
/// than what is above the diagonal.
inline double gram_operations(double width) { return 1.125 * width * width; }
/// Bytes that are moved to add the products of a block of tokens to it, in float64, or packed
/// (worker/maps/moments.h). Without packing, the product is written and converted or read, and the
/// sum is read and written. With packing only the sum is.
inline double gram_block_bytes(double width, bool packed = false) {
  return (packed ? 8.0 : 36.0) * 0.5625 * width * width;
}

/// Floating-point operations of a job, by the sublayer whose rank does them.
struct JobWork {
  const ModelConfig& config;
  const ResolvedJob& job;
  double tokens = 0.0;                  ///< tokens of the calibration
  std::vector<double> operations = {};  ///< operations of each sublayer
  double embedding = 0.0;               ///< operations that the first sublayer has besides
  double head = 0.0;                    ///< likewise the last one
};

}  // namespace dotresize
