#include "job/plan/steps/passes.h"

#include <algorithm>

#include "job/model/model_size.h"
#include "job/plan/allocate/inner_widths.h"

namespace dotresize {
namespace {

/// Calls visit(layer) for the first of each row of equal layers.
template <class Visit>
void for_each_form(const ModelConfig& config, const Visit& visit) {
  for (std::size_t layer = 0; layer < config.layers.size(); ++layer) {
    if (layer == 0 || config.layers[layer] != config.layers[layer - 1]) visit(layer);
  }
}

/// Parameters of the largest sublayer of any rank, with this width at both of its junctions.
int64_t largest_sublayer(const ModelConfig& config, int64_t width, bool folded) {
  int64_t largest = 0;
  for_each_form(config, [&](std::size_t layer) {
    for (const std::size_t sublayer : {2 * layer, 2 * layer + 1}) {
      largest = std::max(largest, sublayer_parameters(config, static_cast<int64_t>(sublayer), width,
                                                      width, folded));
    }
  });
  return largest;
}

/// Numbers per token inside a DeltaNet: what is convolved, before and behind, and for each value
/// head some copies of its key, query and value, and rows of a chunk's matrices.
int64_t delta_net_numbers(const DeltaNetSpec& net) {
  return 3 * net.mixed() +
         net.value_heads * (6 * net.key_dim + 4 * net.value_dim + 4 * kDeltaNetTokens);
}

/// Numbers per token inside the layer's sublayers, of which one computes at a time. Heads are
/// rotated and repeated into copies. `padded`: values may have fewer channels than keys. Scores
/// that are held are those of all pairs of the window's tokens, twice.
int64_t numbers_inside(const LayerSpec& layer, int64_t d, int64_t seqlen, bool padded) {
  const AttentionSpec& spec = layer.attention;
  const int64_t queries = spec.num_heads * spec.head_dim;
  const int64_t keys = spec.num_kv_heads * spec.head_dim;
  const int64_t scores = spec.holds_scores() ? 2 * spec.num_heads * seqlen : 0;
  const int64_t attention = spec.delta_net
                                ? delta_net_numbers(*spec.delta_net)
                                : (spec.gated ? 7 : 5) * queries + (padded ? 5 : 4) * keys + scores;
  // Tokens of an expert are gathered, and its results are added up.
  const int64_t features = std::max(layer.mlp.intermediate_size, shared_features(layer.mlp));
  const int64_t mlp = 3 * (features + (layer.mlp.mixture ? d : 0));
  return std::max(attention, mlp);
}

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
             (features + (2.0 * size + 12.0) * number(config.hidden_size)) +
         size * 5.0 * number(shared_features(config.mlp(sublayer)));
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
  const auto of_mlp = [&](int64_t features) {
    return 10.0 * (2.0 * in + number(features)) + 6.0 * (2.0 * number(features) + out);
  };
  const int64_t shared = shared_features(config.mlp(sublayer));
  return number(active_mlps(config, sublayer)) * of_mlp(mlp_width(config, sublayer)) +
         (shared > 0 ? of_mlp(shared) : 0.0);
}

}  // namespace

RankSizes::RankSizes(const RankOnDevice& rank)
    : RankOnDevice(rank),
      d(config.hidden_size),
      k(job.widths.largest()),
      seqlen(expected_seqlen(job, config)),
      compute_bytes(size_in_bytes(compute)),
      fold_bytes(folds_in_float64(job.output.dtypes.main) ? kDouble : kFloat),
      on_gpu(device == DeviceKind::kCuda),
      gradients(job.gradients()),
      oblique(job.oblique_maps()),
      has_head(shard.end_sublayer == config.num_sublayers()),
      packed(on_gpu && job.schedule.pipelined && compute_bytes < kFloat),
      square(d * d * kDouble),
      rectangle(d * k * kDouble),
      tokens(microbatch_samples(seqlen) * seqlen),
      microbatches((expected_samples(job) * seqlen + tokens - 1) / std::max<int64_t>(1, tokens)),
      microbatch_stream(tokens * d * kFloat),
      share_stream((microbatches + job.resources.ranks - 1) / job.resources.ranks *
                   microbatch_stream),
      dense_sublayer(largest_sublayer(config, d, /*folded=*/false)),
      folded_sublayer(largest_sublayer(config, k, /*folded=*/true)) {}

int64_t RankSizes::gram_sum(int64_t width) const {
  if (!packed) return width * width * kDouble;
  return width * (width + std::clamp<int64_t>(width / 8, 64, 1024)) / 2 * kFloat;
}

int64_t RankSizes::dense_parameters(int64_t sublayer) const {
  return sublayer_parameters(config, sublayer, d, d, /*folded=*/false);
}

int64_t RankSizes::half_folded(int64_t sublayer) const {
  return sublayer_parameters(config, sublayer, k, k, /*folded=*/true) * 2 / 3 +
         dense_parameters(sublayer) / 3;
}

int64_t RankSizes::stage_weights(int64_t end) const {
  int64_t parameters = gradients && has_head ? config.vocab_size * d : 0;
  for (int64_t s = shard.first_sublayer; s < end; ++s) parameters += dense_parameters(s);
  return parameters * compute_bytes;
}

/// Bytes of a microbatch inside a sublayer.
int64_t RankSizes::insides() const {
  int64_t numbers = 0;
  for_each_form(config, [&](std::size_t layer) {
    numbers =
        std::max(numbers, numbers_inside(config.layers[layer], d, seqlen, job.cuts_attentions()));
  });
  // Everything between two float16 products is float32.
  const int64_t bytes = compute == Dtype::kFloat16 ? kFloat : compute_bytes;
  return tokens * (bytes * (numbers + d) + kFloat * d);
}

/// Bytes of a microbatch while its sums are taken: the rotated copy and the copy for the cost
/// kernel, on a GPU its costs, which are rounded before they are added. The CPU also has a block in
/// float64 and the products of some of its rows.
int64_t RankSizes::at_junction() const {
  const int64_t gram =
      on_gpu ? square / 8
             : kDouble * d * (std::min(kGramBlockTokens, tokens) + 2 * std::min<int64_t>(d, 1024));
  const int64_t costs =
      job.method.sums().in_basis().cost ? 2 * microbatch_stream + (on_gpu ? square : 0) : 0;
  return std::max(gram, costs);
}

int64_t RankSizes::microbatch() const {
  const int64_t transfers = job.resources.ranks > 1 ? 2 * microbatch_stream : 0;
  return transfers + microbatch_stream + std::max(insides(), at_junction());
}

/// Bytes per token that autograd keeps in a sublayer, beside its input. Attention: its heads,
/// repeated and padded, the result, the input of head norms, and a row of a mask. MLP: both parts
/// and the gate's activation; with limits also both behind them, and a sigmoid. Mixture: those of
/// the token's experts, also the shared one, and their results.
int64_t RankSizes::graph_bytes(int64_t sublayer) const {
  const int64_t between = compute == Dtype::kFloat16 ? kFloat : compute_bytes;
  const int64_t norms = (2 * kFloat + between) * d;
  if (is_attention(sublayer)) {
    const AttentionSpec& attention = config.attention(sublayer);
    if (attention.delta_net) return norms + 2 * delta_net_numbers(*attention.delta_net) * kFloat;
    const int64_t queries = attention.num_heads * attention.head_dim;
    const int64_t keys = attention.num_kv_heads * attention.head_dim;
    const int64_t normed = attention.head_norms ? (queries + keys) * (kFloat + between) : 0;
    const int64_t mask = attention.sliding_window ? seqlen * (1 + kFloat) : 0;
    const int64_t scores = attention.holds_scores() ? 3 * attention.num_heads * seqlen * kFloat : 0;
    return norms + 5 * queries * compute_bytes + normed + mask + scores +
           attention.num_heads * kFloat;
  }
  const MlpSpec& mlp = config.mlp(sublayer);
  const int64_t features = (mlp.limited ? 6 : 3) * mlp.intermediate_size;
  if (!mlp.mixture) return norms + features * between;
  return norms + mlp.mixture->experts * 3 * kFloat +
         (mlp.mixture->experts_per_token * (features + 3 * d) + 3 * shared_features(mlp)) * between;
}

/// Bytes of the way back: the microbatches that are not back yet (Checkpoints); in one sublayer
/// what its operations keep, and their gradients; blocks of logits and probabilities, whose memory
/// the allocator may not give to a sublayer.
int64_t RankSizes::way_back() const {
  // Upper bound for the number of ranks behind this one.
  const int64_t behind = config.num_sublayers() - shard.end_sublayer;
  const int64_t under_way = std::min<int64_t>({job.resources.ranks, behind + 1, microbatches});
  const int64_t sublayers = shard.end_sublayer - shard.first_sublayer;
  const int64_t transfers = job.resources.ranks > 1 ? 2 * microbatch_stream : 0;
  const int64_t rows = std::min(kGradientVocabularyRows, config.vocab_size);
  const int64_t loss = has_head ? tokens * (6 * rows + 4 * d) * kFloat : 0;
  const bool stage = shard.checkpoints == Checkpoints::kStage;
  const int64_t inputs = stage ? under_way + sublayers + 1 : under_way * (sublayers + 1);
  int64_t graphs = 0;
  if (shard.checkpoints == Checkpoints::kNone) {
    for_each_sublayer(shard, [&](int64_t s) { graphs += under_way * tokens * graph_bytes(s); });
  }
  return inputs * microbatch_stream + graphs + transfers + 3 * insides() + loss;
}

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
    const AttentionSpec& attention = config.attention(sublayer);
    counts.attention =
        attention.delta_net
            ? 2.0 * tokens * number(delta_net_numbers(*attention.delta_net) * kDeltaNetTokens)
            : 2.0 * tokens * number(seqlen) * number(attention_features(attention));
  }
  // Norm, skip path and conversions, all on the float32 stream.
  const double conversion = size < 4.0 ? 4.0 + size : 0.0;
  const double stream =
      (20.0 + conversion) * number(widths.in) + (12.0 + conversion) * number(widths.out);
  counts.bytes = tokens * (inside_bytes(config, sublayer, size) + stream);
  if (half) counts.bytes += tokens * scaling_bytes(config, sublayer, widths);
  return counts;
}

/// Weights have no gradients. The products of attention are computed again, and have two each.
/// Other operations read their input and a gradient, and write one.
ForwardCounts backward_counts(const ForwardCounts& forward) {
  return {.gemm = forward.gemm,
          .shortcut = forward.shortcut,
          .attention = 2.5 * forward.attention,
          .bytes = 1.5 * forward.bytes};
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

}  // namespace dotresize
