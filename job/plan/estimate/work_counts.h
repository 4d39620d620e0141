#pragma once

#include <cstdint>

#include "job/model/model_config.h"
#include "job/plan/resolved_job.h"

namespace dotresize {

/// Widths of a sublayer's two junctions, and the multiplications of a token's skip path.
struct SublayerWidths {
  int64_t in = 0;
  int64_t out = 0;
  int64_t shortcut = 0;
};

/// Those of the model, dense or compressed.
SublayerWidths widths_of(const ModelConfig& config, int64_t sublayer);

/// Forward passes that the gradients of a sublayer take as long as: two products for each of its
/// own. It may run again before (Checkpoints).
inline constexpr int64_t kBackwardPasses = 2;

/// As long as finding a junction's transport plan takes. Measured at the widths of Llama-3.1-8B and
/// 70B with lambda 0.1: 48 and 64 iterations, the first one, in the log domain, and the plan as
/// long as 16 to 27 others.
inline constexpr double kSinkhornIterations = 80.0;

/// Of tokens on their way through a sublayer.
struct ForwardCounts {
  double gemm = 0.0;       ///< floating-point operations in the compute dtype
  double shortcut = 0.0;   ///< likewise, in float32
  double attention = 0.0;  ///< likewise; the pairs that a causal mask hides are not counted
  double bytes = 0.0;      ///< that all other operations read and write
};

ForwardCounts forward_counts(const ModelConfig& config, int64_t sublayer,
                             const SublayerWidths& widths, double tokens, int64_t seqlen,
                             Dtype compute);

/// Of the head of that width and the log-likelihood; `gemm` and `bytes`.
ForwardCounts head_counts(const ModelConfig& config, int64_t width, double tokens, Dtype compute);

/// Of comparing the predictions of two heads, beside computing them: `bytes`.
ForwardCounts comparison_counts(const ModelConfig& config, double tokens);

/// What a token brings to the moments of a mapped junction.
struct MomentCounts {
  double gram = 0.0;    ///< floating-point operations: float64, on a GPU float32
  double rotate = 0.0;  ///< likewise, float32
  double pairs = 0.0;   ///< of the l1 costs
};

MomentCounts moment_counts(const ResolvedJob& job);

/// Bytes that adding the products of a block of tokens to a Gram matrix moves, in float64, or
/// packed (worker/maps/moments.h).
double gram_block_bytes(double width, bool packed = false);

/// Of one mapped junction whose moments are known.
struct SolveCounts {
  double eigen = 0.0;     ///< operations, as hardware.proto counts them
  double qr = 0.0;        ///< likewise
  double sinkhorn = 0.0;  ///< bytes of the cost matrix
  double solve = 0.0;     ///< floating-point operations, float64
  double map = 0.0;       ///< bytes that the journal keeps
};

SolveCounts solve_counts(const ResolvedJob& job);

/// Of two neighbouring maps that are rotated into each other.
struct AlignCounts {
  double qr = 0.0;        ///< operations, as hardware.proto counts them
  double values = 0.0;    ///< likewise, at the rate of an eigendecomposition
  double products = 0.0;  ///< floating-point operations, float64
  double chain = 0.0;     ///< likewise, of each rank for the junctions of all ranks
  double turn = 0.0;      ///< bytes that the journal keeps
};

AlignCounts align_counts(const ResolvedJob& job);

/// Work for one sublayer that is cut, MLPs (`method.mlp`) or value heads (`method.allocate`); all 0
/// if it is not cut.
struct CutCounts {
  double gram = 0.0;     ///< of one round, operations a token: float64, on a GPU float32
  double width = 0.0;    ///< of a Gram matrix as large as all of them
  double solve = 0.0;    ///< floating-point operations, float64, of the curve and of all cuts
  double cuts = 0.0;     ///< of these operations those of the cuts
  double bytes = 0.0;    ///< that one removal after another reads
  double steps = 0.0;    ///< removals, each of which waits for the one before
  double journal = 0.0;  ///< bytes that the journal keeps
};

CutCounts cut_counts(const ModelConfig& config, const ResolvedJob& job, int64_t sublayer);

/// What only the report wants to know of a solved junction.
struct DescribeCounts {
  double eigenvalues = 0.0;  ///< operations, at the rate of an eigendecomposition
  double condition = 0.0;    ///< bytes, on the host
  double energy = 0.0;       ///< floating-point operations, float64
};

DescribeCounts describe_counts(const ResolvedJob& job);

/// Floating-point operations in the fold dtype: those of the in_proj, and those of the out_proj and
/// the shortcut.
struct FoldCounts {
  double in_proj = 0.0;
  double out_proj = 0.0;
};

FoldCounts fold_counts(const ModelConfig& config, int64_t sublayer, int64_t width);

}  // namespace dotresize
