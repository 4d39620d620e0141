// Work counts. n: tokens; d: junction width; k: map width; P: weights; A: weights that a token
// meets (all but those of the experts that it is not sent to).
//   forward     2 A n, and for attention 2 n seqlen heads·head_dim (causal: half the pairs)
//   Gram        n d² above the diagonal, in blocks of rows that cover an eighth more; two of them
//               in the metric of the loss
//   metric      Cholesky d³/3, LᵀGL 4 d³, the map 5 d² k + 2 d k² and a QR
//   rotation    2 n d², costs n d²/2 pairs
//   eigen       20 d³; 5 d³ for eigenvalues alone
//   Sinkhorn    8 d k bytes per iteration
//   QR          2 d k²
//   solve       2 d² k: the map in the original basis
//   align       r = d - k: two complete QR 4 d² k, singular values 60 r³, products 4 d k² + 4 d k r
//               + 2 k² r, and 2 k³ for each junction; oblique maps: singular values 20 k r², and
//               products 2 d k² + 2 k³ + 2 k² r
//   folding     2 P k, and 2 d k² for the shortcut
//   MLP cut     f features, of which l are left: Gram n f² as above, inverse f³, products of down
//               2 d f² and 2 d² f. Removal in blocks: 6 m² per feature, where m counts the features
//               that are present (between f and l) and up to a seventh more that have been removed;
//               in total 2.3 (f³ − l³). Each removal reads about 100 m numbers. An allocation
//               computes its curve like that, down to the fewest features that it may keep. A cut:
//               l³/3 + 2 d f l + 2 d l²; an allocation makes two
//   value cut   f = heads·head_dim features, removed `heads` at a time without blocks: f³, 2 f² and
//               2 d f per feature, and 4 f² head_dim for the rotations; for the curve and each cut
#include "job/plan/estimate/work_counts.h"

#include <algorithm>
#include <cmath>

#include "job/model/model_size.h"
#include "job/plan/allocate/choices.h"
#include "job/plan/allocate/inner_widths.h"
#include "job/plan/block_sizes.h"

namespace dotresize {
namespace {

/// Cost of finding a junction's transport plan, in Sinkhorn iterations. Measured at the widths of
/// Llama-3.1-8B and 70B with lambda 0.1: 48 and 64 iterations. The first one, in the log domain,
/// and the plan take as long as 16 to 27 others.
constexpr double kSinkhornIterations = 80.0;

/// Steps of each of the two Lanczos runs. A step of both reads the matrix three times.
constexpr double kConditionSteps = 30.0;

/// Bytes per token between the matrix products inside a sublayer, in numbers of `size` bytes.
double inside_bytes(const ModelConfig& config, int64_t sublayer, double size) {
  if (is_attention(sublayer)) {  // rotary embedding; the heads put side by side
    const AttentionSpec& attention = config.attention(sublayer);
    const double turned =
        number((attention.num_heads + attention.num_kv_heads) * attention.head_dim);
    return size * (10.0 * turned + 2.0 * number(attention_features(attention)));
  }
  const double features = size * 5.0 * number(mlp_width(config, sublayer));
  if (!config.is_mixture(sublayer)) return features;
  // Tokens are gathered and scattered.
  return number(active_mlps(config, sublayer)) *
         (features + (2.0 * size + 12.0) * number(config.hidden_size));
}

/// Bytes per token of float16 products whose rows are scaled (worker/transformer/linear.h).
/// The input is read twice and rounded; the output is read and written.
double scaling_bytes(const ModelConfig& config, int64_t sublayer, const SublayerWidths& widths) {
  const double in = number(widths.in);
  const double out = number(widths.out);
  if (is_attention(sublayer)) {
    const AttentionSpec& attention = config.attention(sublayer);
    const double queries = number(attention_features(attention));
    const double keys = number(attention.num_kv_heads * attention.head_dim);
    return 10.0 * (3.0 * in + queries) + 6.0 * (queries + 2.0 * keys + out);
  }
  const double features = number(mlp_width(config, sublayer));
  return number(active_mlps(config, sublayer)) *
         (10.0 * (2.0 * in + features) + 6.0 * (2.0 * features + out));
}

}  // namespace

SublayerWidths widths_of(const ModelConfig& config, int64_t sublayer) {
  const auto index = static_cast<std::size_t>(sublayer);
  const int64_t in = config.form.junction_widths.at(index);
  const int64_t out = config.form.junction_widths.at(index + 1);
  const ShortcutForm form = config.shortcut(sublayer);
  // One factor is multiplied twice: by its own rows, and by its first k_out ones.
  const int64_t behind = form.factors == 1 ? std::min(in, out) : out;
  return {in, out, form.dense() ? in * out : *form.rank * (in + behind)};
}

ForwardCounts forward_counts(const ModelConfig& config, int64_t sublayer,
                             const SublayerWidths& widths, double tokens, int64_t seqlen,
                             Dtype compute) {
  // Everything between two float16 products is float32.
  const bool half = compute == Dtype::kFloat16;
  const double size = half ? 4.0 : number(size_in_bytes(compute));
  ForwardCounts counts;
  const auto parameters = [&](int64_t in, int64_t out) {
    return number(sublayer_parameters(config, sublayer, in, out, /*folded=*/false));
  };
  // Parameters that a token meets at these widths.
  const double active = number(active_parameters(config, sublayer)) *
                        parameters(widths.in, widths.out) /
                        parameters(config.hidden_size, config.hidden_size);
  counts.gemm = 2.0 * tokens * active;
  counts.shortcut = 2.0 * tokens * number(widths.shortcut);
  if (is_attention(sublayer)) {
    counts.attention =
        2.0 * tokens * number(seqlen) * number(attention_features(config.attention(sublayer)));
  }
  // Norm, skip path and conversions, all on the float32 stream.
  const double conversion = size < 4.0 ? 4.0 + size : 0.0;
  const double stream =
      (20.0 + conversion) * number(widths.in) + (12.0 + conversion) * number(widths.out);
  counts.bytes = tokens * (inside_bytes(config, sublayer, size) + stream);
  if (half) counts.bytes += tokens * scaling_bytes(config, sublayer, widths);
  return counts;
}

ForwardCounts head_counts(const ModelConfig& config, int64_t width, double tokens, Dtype compute) {
  const double logits = tokens * number(config.vocab_size);
  const double size = number(size_in_bytes(compute));
  ForwardCounts counts;
  counts.gemm = 2.0 * logits * number(width);
  // Logits are written, converted, and pass a log-softmax that reads three times and writes.
  counts.bytes = logits * (size + (size < 4.0 ? size + 4.0 : 0.0) + 16.0);
  return counts;
}

MomentCounts moment_counts(const ResolvedJob& job) {
  const double d = number(job.model.hidden_size);
  MomentCounts counts;
  counts.gram = 1.125 * d * d * (job.gradients() ? 2.0 : 1.0);
  if (job.method.sums().in_basis().cost) counts.pairs = d * d / 2.0;
  if (job.method.passes() > 1) counts.rotate = 2.0 * d * d;
  return counts;
}

double gram_block_bytes(double width, bool packed) {
  // Without packing, the product is written and converted or read, and the sum is read and written.
  // With packing only the sum is.
  return (packed ? 8.0 : 36.0) * 0.5625 * width * width;
}

SolveCounts solve_counts(const ResolvedJob& job) {
  const double d = number(job.model.hidden_size);
  const double k = number(job.widths.largest());
  SolveCounts counts;
  if (job.method.pca()) counts.eigen = 20.0 * d * d * d;
  if (job.method.transport()) {
    counts.sinkhorn = 8.0 * kSinkhornIterations * d * k;
    counts.qr = 2.0 * d * k * k;
  }
  if (job.method.transport() && job.method.pca()) counts.solve = 2.0 * d * d * k;
  counts.map = d * k * (folds_in_float64(job.output.dtypes.main) ? 8.0 : 4.0);
  if (job.oblique_maps()) {
    counts.qr += 2.0 * d * k * k;
    counts.solve += 4.4 * d * d * d + 5.0 * d * d * k + 2.0 * d * k * k;
    counts.map *= 2.0;
  }
  return counts;
}

AlignCounts align_counts(const ResolvedJob& job) {
  const double d = number(job.model.hidden_size);
  const double k = number(job.widths.largest());
  const double r = d - k;
  AlignCounts counts = {4.0 * d * d * k, 60.0 * r * r * r,
                        4.0 * d * k * k + 4.0 * d * k * r + 2.0 * k * k * r, 2.0 * k * k * k,
                        k * k * (folds_in_float64(job.output.dtypes.main) ? 8.0 : 4.0)};
  if (job.oblique_maps()) {
    counts.values += 20.0 * k * r * r;
    counts.products += 2.0 * d * k * k + 2.0 * k * k * k + 2.0 * k * k * r;
  }
  return counts;
}

namespace {

/// Number of cuts of an allocation: for its trial, and for the output.
constexpr double kCutsOfAllocation = 2.0;

CutCounts value_cut_counts(const ModelConfig& config, const ResolvedJob& job, int64_t sublayer) {
  CutCounts counts;
  if (!job.allocates_values()) return counts;
  const AttentionSpec& attention = config.attention(sublayer);
  const double d = number(config.hidden_size);
  const double f = number(attention_features(attention));
  const double dim = number(attention.head_dim);
  // All cuts of an allocation together remove about the share that the size asks for, because the
  // widths are not known.
  const double cut_share = kCutsOfAllocation * (1.0 - job.target.allocation->size);
  const double steps =
      (dim - number(kValueChannels.sizes(config.layers[layer_of(sublayer)], 1).back())) *
      (1.0 + cut_share);
  const double removed = steps * number(attention.num_heads);
  counts.gram = 1.125 * f * f;
  counts.width = f;
  counts.solve = (1.0 + kCutsOfAllocation) * (f * f * f + 4.0 * f * f * dim) +
                 2.0 * f * f * removed + 2.0 * d * f * removed;
  counts.bytes = steps * 8.0 * 3.0 * f * (f + d);
  counts.steps = steps;
  const double values = number(attention.num_kv_heads * attention.head_dim);
  const double rows = attention.fused ? f + 2.0 * values : values;
  counts.journal = (kCutsOfAllocation - cut_share) * (rows + f) * d *
                   (folds_in_float64(job.output.dtypes.main) ? 8.0 : 4.0);
  return counts;
}

}  // namespace

CutCounts cut_counts(const ModelConfig& config, const ResolvedJob& job, int64_t sublayer) {
  if (is_attention(sublayer)) return value_cut_counts(config, job, sublayer);
  CutCounts counts;
  if (!job.mlp) return counts;
  const double d = number(config.hidden_size);
  const double mlps = number(mlp_count(config, sublayer));
  const double f = number(mlp_width(config, sublayer));
  const double cuts = job.target.allocation ? kCutsOfAllocation : 1.0;
  const bool mixture = config.is_mixture(sublayer);
  const double left = job.target.allocation
                          ? f * job.target.allocation->size
                          : number(mixture ? job.mlp->expert_width : job.mlp->width);
  const double least =
      job.target.allocation ? number(choices(config, job, sublayer).back().size) : left;
  counts.gram = 1.125 * f * f * number(active_mlps(config, sublayer));
  counts.width = f * std::sqrt(mlps);
  const double of_removal =
      f * f * f + 2.0 * d * f * f + 2.0 * d * d * f + 2.3 * (f * f * f - least * least * least);
  const double of_cut = left * left * left / 3.0 + 2.0 * d * f * left + 2.0 * d * left * left;
  counts.cuts = mlps * cuts * of_cut;
  counts.solve = mlps * of_removal + counts.cuts;
  counts.steps = mlps * (f - least);
  counts.bytes = counts.steps * 8.0 * 100.0 * (f + least) / 2.0;
  const int64_t width = config.hidden_size;
  const TensorsSize stored = sublayer_size(config, sublayer, width, width, /*folded=*/false);
  // Gate and up stay as they are stored.
  counts.journal = cuts * mlps * left * d *
                   (2.0 * number(stored.bytes) / number(stored.parameters) +
                    (folds_in_float64(job.output.dtypes.main) ? 8.0 : 4.0));
  return counts;
}

DescribeCounts describe_counts(const ResolvedJob& job) {
  const double d = number(job.model.hidden_size);
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

std::vector<double> estimate_work(const ModelConfig& config, const ResolvedJob& job) {
  const double d = number(config.hidden_size);
  const int64_t width = job.widths.largest();  // a look at all junctions
  const double k = number(width);
  const int64_t seqlen = expected_seqlen(job, config);
  const double tokens = number(expected_tokens(job, config));
  const double evaluations = job.evaluation ? 2.0 : 0.0;
  const double back = job.gradients() ? number(kBackwardPasses + 1) : 0.0;
  const bool maps = sums_junctions(job);
  const double passes = (maps ? number(job.method.passes()) + back : 0.0) + evaluations +
                        (job.mlp ? 1.0 + back : 0.0);
  const MomentCounts moments = moment_counts(job);
  const SolveCounts solving = solve_counts(job);
  const DescribeCounts describing = describe_counts(job);
  // Three operations for a pair of the costs, and four for eight bytes of an iteration.
  const double junction = tokens * (moments.gram + moments.rotate + 3.0 * moments.pairs) +
                          solving.eigen + solving.qr + solving.solve + solving.sinkhorn / 2.0 +
                          describing.eigenvalues + describing.energy;
  std::vector<double> work;
  for (int64_t s = 0; s < config.num_sublayers(); ++s) {
    const ForwardCounts forward = forward_counts(config, s, widths_of(config, s), tokens, seqlen,
                                                 job.resources.compute_dtype);
    const CutCounts cut = cut_counts(config, job, s);
    const FoldCounts fold = fold_counts(config, s, width);
    work.push_back(passes * (forward.gemm + forward.attention) + tokens * cut.gram + cut.solve +
                   (s + 1 < job.widths.mapped_count ? junction : 0.0) + fold.in_proj +
                   fold.out_proj);
  }
  const double fold_vocabulary = 2.0 * number(config.vocab_size) * d * k;
  work.front() += (maps ? junction : 0.0) + fold_vocabulary;
  work.back() +=
      (evaluations + back) *
          head_counts(config, config.hidden_size, tokens, job.resources.compute_dtype).gemm +
      fold_vocabulary;
  return work;
}

}  // namespace dotresize
