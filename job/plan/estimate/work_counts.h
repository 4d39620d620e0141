#pragma once

#include <cstdint>
#include <vector>

#include "job/model/model_config.h"
#include "job/plan/resolved_job.h"

namespace dotresize {

/// Number as the counts and times have it.
inline double number(int64_t value) { return static_cast<double>(value); }

/// Widths of a sublayer's two junctions, and the multiplications per token of its skip path.
struct SublayerWidths {
  int64_t in = 0;
  int64_t out = 0;
  int64_t shortcut = 0;
};

/// Returns the widths of a sublayer of the model, dense or compressed.
SublayerWidths widths_of(const ModelConfig& config, int64_t sublayer);

/// Cost of a sublayer's gradients, in forward passes: two products for each of its own. The
/// sublayer may also run forward again (Checkpoints).
inline constexpr int64_t kBackwardPasses = 2;

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

/// Work for a head of this width and the log-likelihood. Sets `gemm` and `bytes`.
ForwardCounts head_counts(const ModelConfig& config, int64_t width, double tokens, Dtype compute);

/// Work per token for the moments of a mapped junction.
struct MomentCounts {
  double gram = 0.0;    ///< floating-point operations: float64, on a GPU float32
  double rotate = 0.0;  ///< likewise, float32
  double pairs = 0.0;   ///< pairs of the l1 costs
};

MomentCounts moment_counts(const ResolvedJob& job);

/// Bytes that are moved to add the products of a block of tokens to a Gram matrix, in float64, or
/// packed (worker/maps/moments.h).
double gram_block_bytes(double width, bool packed = false);

/// Work for one mapped junction whose moments are known.
struct SolveCounts {
  double eigen = 0.0;     ///< operations, as hardware.proto counts them
  double qr = 0.0;        ///< likewise
  double sinkhorn = 0.0;  ///< bytes of the cost matrix
  double solve = 0.0;     ///< floating-point operations, float64
  double map = 0.0;       ///< bytes that the journal keeps
};

SolveCounts solve_counts(const ResolvedJob& job);

/// Work to rotate two neighbouring maps into each other.
struct AlignCounts {
  double qr = 0.0;        ///< operations, as hardware.proto counts them
  double values = 0.0;    ///< likewise, at the rate of a singular value decomposition
  double products = 0.0;  ///< floating-point operations, float64
  double chain = 0.0;     ///< likewise; each rank does it for the junctions of all ranks
  double turn = 0.0;      ///< bytes of the rotation that the journal keeps
};

AlignCounts align_counts(const ResolvedJob& job);

/// Work for one sublayer that is cut, MLPs (`method.mlp`) or value heads (`method.allocate`); all 0
/// if it is not cut.
struct CutCounts {
  double gram = 0.0;     ///< operations per token of one round: float64, on a GPU float32
  double width = 0.0;    ///< width of a Gram matrix as large as all of them
  double solve = 0.0;    ///< floating-point operations, float64, of the curve and of all cuts
  double cuts = 0.0;     ///< part of `solve` for the cuts
  double bytes = 0.0;    ///< bytes that the removals read, one after the other
  double steps = 0.0;    ///< removals, each of which waits for the one before
  double journal = 0.0;  ///< bytes that the journal keeps
};

CutCounts cut_counts(const ModelConfig& config, const ResolvedJob& job, int64_t sublayer);

/// Work for values of a solved junction that only the report needs.
struct DescribeCounts {
  double eigenvalues = 0.0;  ///< operations, at the rate of an eigendecomposition
  double condition = 0.0;    ///< bytes that are read on the host
  double energy = 0.0;       ///< floating-point operations, float64
};

DescribeCounts describe_counts(const ResolvedJob& job);

/// Floating-point operations in the fold dtype, for the in_proj, and for the out_proj and the
/// shortcut.
struct FoldCounts {
  double in_proj = 0.0;
  double out_proj = 0.0;
};

FoldCounts fold_counts(const ModelConfig& config, int64_t sublayer, int64_t width);

/// Floating-point operations that each sublayer brings to the rank that owns it: its forward
/// passes, its cut, its folding, and of the junction that it writes the moments, the map and the
/// values that the report has of it. The first
/// sublayer also has those of the embedding, the last one those of the head. The evaluation text is
/// assumed to be as long as the calibration text.
std::vector<double> estimate_work(const ModelConfig& config, const ResolvedJob& job);

}  // namespace dotresize
