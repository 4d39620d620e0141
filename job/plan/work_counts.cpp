// n tokens, junction width d, map width k, P weights, of which a token meets A (all but the experts
// that it is not sent to):
//   forward     2 A n, and for attention 2 n seqlen heads·head_dim (causal: half the pairs)
//   Gram        n d² above the diagonal, in blocks of rows that cover an eighth more; in the metric
//               of the loss two of them
//   metric      Cholesky d³/3, LᵀGL 4 d³, the map 5 d² k + 2 d k² and a QR
//   rotation    2 n d², costs n d²/2 pairs
//   eigen       20 d³, for eigenvalues alone 5 d³
//   Sinkhorn    8 d k bytes an iteration
//   QR          2 d k²
//   solve       2 d² k: the map in the original basis
//   align       r = d - k: two complete QR 4 d² k, singular values 60 r³, products 4 d k² + 4 d k r
//               + 2 k² r, and 2 k³ for each junction; oblique maps: singular values 20 k r², and
//               products 2 d k² + 2 k³ + 2 k² r
//   folding     2 P k, and 2 d k² for the shortcut
//   MLP cut     f features, m of them removed: Gram n f² as above, inverse f³, and 2 f² m + 2 d f m
//               in blocks; each removal reads d f numbers and a block's 64 f. By loss all of it
//               twice: for the curve as many as any allocation removes, then those that go
//   value cut   likewise, f being heads·head_dim, of which `heads` go at a time without blocks; and
//               4 f² head_dim for the turns
#include "job/plan/work_counts.h"

#include <cmath>

#include "job/model/model_size.h"
#include "job/plan/inner_widths.h"

namespace dotresize {
namespace {

/// Of each of the two Lanczos runs; a step of both reads three times the matrix.
constexpr double kConditionSteps = 30.0;

double number(int64_t value) { return static_cast<double>(value); }

/// Parameters that a token meets at these widths.
double active(const ModelConfig& config, int64_t sublayer, const SublayerWidths& widths) {
  const int64_t d = config.hidden_size;
  const auto parameters = [&](int64_t in, int64_t out) {
    return number(sublayer_parameters(config, sublayer, in, out, /*folded=*/false));
  };
  return number(active_parameters(config, sublayer)) * parameters(widths.in, widths.out) /
         parameters(d, d);
}

/// Bytes per token between the matrix products of a sublayer's inside, in numbers of `size` bytes.
double inside_bytes(const ModelConfig& config, int64_t sublayer, double size) {
  if (is_attention(sublayer)) {  // rotary embedding; the heads put side by side
    const double turned = number((config.num_heads + config.num_kv_heads) * config.head_dim);
    return size * (10.0 * turned + 2.0 * number(config.num_heads * config.head_dim));
  }
  const double features = size * 5.0 * number(mlp_width(config, sublayer));
  if (!config.is_mixture(sublayer)) return features;
  // Tokens are gathered and scattered.
  return number(config.mixture->experts_per_token) *
         (features + (2.0 * size + 12.0) * number(config.hidden_size));
}

/// Norm, skip path and conversions, all on the float32 stream.
double stream_bytes(const SublayerWidths& widths, double size) {
  const double conversion = size < 4.0 ? 4.0 + size : 0.0;
  return (20.0 + conversion) * number(widths.in) + (12.0 + conversion) * number(widths.out);
}

}  // namespace

SublayerWidths widths_of(const ModelConfig& config, int64_t sublayer) {
  const auto index = static_cast<std::size_t>(sublayer);
  const int64_t in = config.junction_widths.at(index);
  const int64_t out = config.junction_widths.at(index + 1);
  return {in, out, shortcut_products(config.shortcut(sublayer), in, out)};
}

ForwardCounts forward_counts(const ModelConfig& config, int64_t sublayer,
                             const SublayerWidths& widths, double tokens, int64_t seqlen,
                             Dtype compute) {
  const double size = number(size_in_bytes(compute));
  ForwardCounts counts;
  counts.gemm = 2.0 * tokens * active(config, sublayer, widths);
  counts.shortcut = 2.0 * tokens * number(widths.shortcut);
  if (is_attention(sublayer)) {
    counts.attention = 2.0 * tokens * number(seqlen) * number(config.num_heads * config.head_dim);
  }
  counts.bytes = tokens * (inside_bytes(config, sublayer, size) + stream_bytes(widths, size));
  return counts;
}

ForwardCounts head_counts(const ModelConfig& config, int64_t width, double tokens, Dtype compute) {
  const double logits = tokens * number(config.vocab_size);
  const double size = number(size_in_bytes(compute));
  ForwardCounts counts;
  counts.gemm = 2.0 * logits * number(width);
  // Written, converted, and through a log-softmax that reads three times and writes.
  counts.bytes = logits * (size + (size < 4.0 ? size + 4.0 : 0.0) + 16.0);
  return counts;
}

ForwardCounts comparison_counts(const ModelConfig& config, double tokens) {
  ForwardCounts counts;
  // The maxima of both, and in float64 both, their exponentials, difference and product, which are
  // written and read.
  counts.bytes = tokens * number(config.vocab_size) * (2.0 * 4.0 + 2.0 * 4.0 + 10.0 * 8.0);
  return counts;
}

MomentCounts moment_counts(const ResolvedJob& job) {
  const double d = number(job.hidden_size);
  MomentCounts counts;
  counts.gram = 1.125 * d * d * (job.gradients() ? 2.0 : 1.0);
  if (job.method.transport()) counts.pairs = d * d / 2.0;
  if (job.method.passes() > 1) counts.rotate = 2.0 * d * d;
  return counts;
}

double gram_block_bytes(int64_t hidden_size) {
  // The product is written and converted or read, the sum is read and written.
  return 36.0 * 0.5625 * number(hidden_size) * number(hidden_size);
}

SolveCounts solve_counts(const ResolvedJob& job) {
  const double d = number(job.hidden_size);
  const double k = number(job.widths.largest());
  SolveCounts counts;
  if (job.method.pca()) counts.eigen = 20.0 * d * d * d;
  if (job.method.transport()) {
    counts.sinkhorn = 8.0 * kSinkhornIterations * d * k;
    counts.qr = 2.0 * d * k * k;
  }
  if (job.method.transport() && job.method.pca()) counts.solve = 2.0 * d * d * k;
  counts.map = d * k * (folds_in_float64(job.output_dtype) ? 8.0 : 4.0);
  if (job.oblique_maps()) {
    counts.qr += 2.0 * d * k * k;
    counts.solve += 4.4 * d * d * d + 5.0 * d * d * k + 2.0 * d * k * k;
    counts.map *= 2.0;
  }
  return counts;
}

AlignCounts align_counts(const ResolvedJob& job) {
  const double d = number(job.hidden_size);
  const double k = number(job.widths.largest());
  const double r = d - k;
  AlignCounts counts = {4.0 * d * d * k, 60.0 * r * r * r,
                        4.0 * d * k * k + 4.0 * d * k * r + 2.0 * k * k * r, 2.0 * k * k * k,
                        k * k * (folds_in_float64(job.output_dtype) ? 8.0 : 4.0)};
  if (job.oblique_maps()) {
    counts.values += 20.0 * k * r * r;
    counts.products += 2.0 * d * k * k + 2.0 * k * k * k + 2.0 * k * k * r;
  }
  return counts;
}

namespace {

/// As if each were cut as far as it may be for its curve, and nothing then.
CutCounts value_cut_counts(const ModelConfig& config, const ResolvedJob& job) {
  CutCounts counts;
  if (!job.allocates_values()) return counts;
  const double d = number(config.hidden_size);
  const double f = number(attention_features(config));
  const double dim = number(config.head_dim);
  const double steps = dim - number(possible_value_dims(config).back());
  const double removed = steps * number(config.num_heads);
  const double rounds = number(job.mlp->rounds());
  counts.gram = rounds * 1.125 * f * f;
  counts.blocks = rounds * 36.0 * 0.5625 * f * f;
  counts.solve =
      rounds * (f * f * f + 4.0 * f * f * dim) + 2.0 * f * f * removed + 2.0 * d * f * removed;
  counts.bytes = steps * 8.0 * 3.0 * f * (f + d);
  const double values = number(config.num_kv_heads * config.head_dim);
  const double rows = config.fused_in_proj ? f + 2.0 * values : values;
  counts.journal = (rows + f) * d * (folds_in_float64(job.output_dtype) ? 8.0 : 4.0);
  return counts;
}

}  // namespace

CutCounts cut_counts(const ModelConfig& config, const ResolvedJob& job, int64_t sublayer) {
  if (is_attention(sublayer)) return value_cut_counts(config, job);
  CutCounts counts;
  if (!job.mlp) return counts;
  constexpr double kBlock = 64.0;
  const double d = number(config.hidden_size);
  const double mlps = number(mlp_count(config, sublayer));
  const double rounds = number(job.mlp->rounds());
  const double f = number(mlp_width(config, sublayer));
  const double left = number(mlp_width(with_cut_mlps(config, job.mlp), sublayer));
  double removed = f - left;
  if (job.mlp->allocated) {  // for the curve, before those of the cut
    removed += f - number(possible_mlp_widths(config, *job.mlp, sublayer).back());
  }
  const bool mixture = config.is_mixture(sublayer);
  counts.gram =
      rounds * 1.125 * f * f * (mixture ? number(config.mixture->experts_per_token) : 1.0);
  counts.blocks = rounds * mlps * 36.0 * 0.5625 * f * f;
  counts.solve = mlps * (rounds * f * f * f + 2.0 * f * f * removed + 2.0 * d * f * removed);
  counts.bytes = mlps * removed * 8.0 * f * (d + kBlock);
  counts.journal = mlps * left * d *
                   (2.0 * number(size_in_bytes(job.source_dtype)) +
                    (folds_in_float64(job.output_dtype) ? 8.0 : 4.0));
  return counts;
}

DescribeCounts describe_counts(const ResolvedJob& job) {
  const double d = number(job.hidden_size);
  const double k = number(job.widths.largest());
  DescribeCounts counts;
  if (job.method.transport()) counts.condition = kConditionSteps * 3.0 * 8.0 * k * k;
  if (!job.method.pca() || job.oblique_maps()) {
    counts.eigenvalues = 5.0 * d * d * d;
    counts.energy = 2.0 * d * d * k;
  }
  return counts;
}

FoldCounts fold_counts(const ModelConfig& config, int64_t sublayer, int64_t width) {
  const int64_t d = config.hidden_size;
  const double k = number(width);
  const auto both = number(sublayer_parameters(config, sublayer, d, d, /*folded=*/false));
  const auto in_proj = number(sublayer_parameters(config, sublayer, d, 0, /*folded=*/false));
  return {2.0 * in_proj * k, 2.0 * (both - in_proj) * k + 2.0 * number(d) * k * k};
}

}  // namespace dotresize
