#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

#include "job/model/model_size.h"
#include "job/plan/allocate/inner_widths.h"
#include "job/plan/allocate/junction_widths.h"
#include "job/plan/allocate/shortcut_forms.h"
#include "job/plan/block_sizes.h"
#include "job/plan/estimate/memory_estimate.h"

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

/// Largest number of features that are summed: those of an MLP, of an expert, or the values that o
/// reads.
int64_t most_features(const ModelConfig& config, bool with_values) {
  int64_t most = 0;
  for (const LayerSpec& layer : config.layers) {
    most = std::max(most, layer.mlp.intermediate_size);
    if (with_values) most = std::max(most, attention_features(layer.attention));
  }
  return most;
}

/// Numbers per token inside the layer's sublayers, of which one computes at a time. Heads are
/// rotated and repeated into copies. `padded`: value heads may be narrower than the others.
int64_t numbers_inside(const LayerSpec& layer, int64_t d, bool padded) {
  const int64_t queries = layer.attention.num_heads * layer.attention.head_dim;
  const int64_t keys = layer.attention.num_kv_heads * layer.attention.head_dim;
  const int64_t attention = 5 * queries + (padded ? 5 : 4) * keys;
  // Tokens of an expert are gathered, and its results are added up.
  const int64_t mlp = 3 * (layer.mlp.intermediate_size + (layer.mlp.mixture ? d : 0));
  return std::max(attention, mlp);
}

}  // namespace

RankSizes::RankSizes(const RankMemory& rank)
    : r(rank),
      d(r.config.hidden_size),
      k(r.job.widths.largest()),
      seqlen(expected_seqlen(r.job, r.config)),
      compute_bytes(size_in_bytes(r.compute)),
      fold_bytes(folds_in_float64(r.job.output.dtypes.main) ? kDouble : kFloat),
      // Maps at both ends of a shortcut of low rank are rotated into each other.
      aligns(!r.job.maps.shared &&
             std::ranges::any_of(shortcut_forms(r.job.widths.all, d, r.job.oblique_maps()),
                                 [](const ShortcutForm& form) { return !form.dense(); })),
      turns_stock(r.job.stock_output()),
      turns_norm(turns_stock && r.config.tie_word_embeddings),
      on_gpu(r.device == DeviceKind::kCuda),
      pca(r.job.method.pca()),
      transport(r.job.method.transport()),
      second_pass(r.job.method.passes() > 1),
      gradients(r.job.gradients()),
      oblique(r.job.oblique_maps()),
      has_head(r.shard.end_sublayer == r.config.num_sublayers()),
      packed(on_gpu && r.job.schedule.pipelined && compute_bytes < kFloat),
      square(d * d * kDouble),
      rectangle(d * k * kDouble),
      tokens(microbatch_samples(seqlen) * seqlen),
      microbatches((expected_samples(r.job) * seqlen + tokens - 1) / std::max<int64_t>(1, tokens)),
      microbatch_stream(tokens * d * kFloat),
      share_stream((microbatches + r.job.resources.ranks - 1) / r.job.resources.ranks *
                   microbatch_stream),
      metric(oblique ? 2 * square : 0),
      eigen(pca ? (on_gpu ? 4 : 3) * square : 0),
      first_sums(gram_sum(d) * (gradients ? 2 : 1) + (r.job.method.sums().first.cost ? square : 0)),
      whole_first_sums(square * ((r.job.method.sums().first.cost ? 2 : 1) + (gradients ? 1 : 0))),
      second_sums(second_pass ? square + square / 2 + (on_gpu ? 0 : square + metric) : 0),
      waiting_to_solve(pca ? (r.job.method.sums().second.cost ? square : 0) +
                                 (on_gpu ? 0 : square + metric)
                           : whole_first_sums),
      junctions(std::min(r.shard.junctions_at_once,
                         r.shard.junctions(summed_junctions(r.config, r.job)))),
      cut_at_once(std::min(r.shard.cuts_at_once, count_cut_sublayers(r.job, r.shard.first_sublayer,
                                                                     r.shard.end_sublayer))),
      features(most_features(r.config, r.job.allocates_values())),
      dense_sublayer(largest_sublayer(r.config, d, /*folded=*/false)),
      folded_sublayer(largest_sublayer(r.config, k, /*folded=*/true)) {}

int64_t RankSizes::gram_sum(int64_t width) const {
  if (!packed) return width * width * kDouble;
  return width * (width + std::clamp<int64_t>(width / 8, 64, 1024)) / 2 * kFloat;
}

int64_t RankSizes::half_folded(int64_t sublayer) const {
  return sublayer_parameters(r.config, sublayer, k, k, /*folded=*/true) * 2 / 3 +
         sublayer_parameters(r.config, sublayer, d, d, /*folded=*/false) / 3;
}

int64_t RankSizes::stage_weights(int64_t end) const {
  int64_t parameters = gradients && has_head ? r.config.vocab_size * d : 0;
  for (int64_t sublayer = r.shard.first_sublayer; sublayer < end; ++sublayer) {
    parameters += sublayer_parameters(r.config, sublayer, d, d, /*folded=*/false);
  }
  return parameters * compute_bytes;
}

/// Bytes of a microbatch inside a sublayer.
int64_t RankSizes::insides() const {
  int64_t numbers = 0;
  for_each_form(r.config, [&](std::size_t layer) {
    numbers =
        std::max(numbers, numbers_inside(r.config.layers[layer], d, r.job.allocates_values()));
  });
  // Everything between two float16 products is float32.
  const int64_t bytes = r.compute == Dtype::kFloat16 ? kFloat : compute_bytes;
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
      r.job.method.sums().in_basis().cost ? 2 * microbatch_stream + (on_gpu ? square : 0) : 0;
  return std::max(gram, costs);
}

int64_t RankSizes::microbatch() const {
  const int64_t transfers = r.job.resources.ranks > 1 ? 2 * microbatch_stream : 0;
  return transfers + microbatch_stream + std::max(insides(), at_junction());
}

/// Bytes per token that autograd keeps in a sublayer, beside its input. Attention: its heads,
/// repeated and padded, the result, the input of head norms, and a row of a mask. MLP: both parts
/// and the gate's activation. Mixture: those of the token's experts, and their results.
int64_t RankSizes::graph_bytes(int64_t sublayer) const {
  const int64_t between = r.compute == Dtype::kFloat16 ? kFloat : compute_bytes;
  const int64_t norms = (2 * kFloat + between) * d;
  if (is_attention(sublayer)) {
    const AttentionSpec& attention = r.config.attention(sublayer);
    const int64_t queries = attention.num_heads * attention.head_dim;
    const int64_t keys = attention.num_kv_heads * attention.head_dim;
    const int64_t normed = attention.head_norms ? (queries + keys) * (kFloat + between) : 0;
    const int64_t mask = attention.sliding_window ? seqlen * (1 + kFloat) : 0;
    return norms + 5 * queries * compute_bytes + normed + mask + attention.num_heads * kFloat;
  }
  const MlpSpec& mlp = r.config.mlp(sublayer);
  if (!mlp.mixture) return norms + 3 * mlp.intermediate_size * between;
  return norms + mlp.mixture->experts * 3 * kFloat +
         mlp.mixture->experts_per_token * (3 * mlp.intermediate_size + 3 * d) * between;
}

/// Bytes of the way back: the microbatches that are not back yet (Checkpoints); in one sublayer
/// what its operations keep, and their gradients; blocks of logits and probabilities, whose memory
/// the allocator may not give to a sublayer.
int64_t RankSizes::way_back() const {
  // Upper bound for the number of ranks behind this one.
  const int64_t behind = r.config.num_sublayers() - r.shard.end_sublayer;
  const int64_t under_way = std::min<int64_t>({r.job.resources.ranks, behind + 1, microbatches});
  const int64_t sublayers = r.shard.end_sublayer - r.shard.first_sublayer;
  const int64_t transfers = r.job.resources.ranks > 1 ? 2 * microbatch_stream : 0;
  const int64_t rows = std::min(kGradientVocabularyRows, r.config.vocab_size);
  const int64_t loss = has_head ? tokens * (6 * rows + 4 * d) * kFloat : 0;
  const bool stage = r.shard.checkpoints == Checkpoints::kStage;
  const int64_t inputs = stage ? under_way + sublayers + 1 : under_way * (sublayers + 1);
  int64_t graphs = 0;
  if (r.shard.checkpoints == Checkpoints::kNone) {
    for (int64_t s = r.shard.first_sublayer; s < r.shard.end_sublayer; ++s) {
      graphs += under_way * tokens * graph_bytes(s);
    }
  }
  return inputs * microbatch_stream + graphs + transfers + 3 * insides() + loss;
}

/// Bytes for the sums of the `at_once` neighbouring sublayers that need most: an MLP, all experts
/// of a mixture, or an attention, and the gradients behind it.
int64_t RankSizes::feature_sums(int64_t at_once) const {
  // Ranks that share the tokens meet the MLPs of all ranks.
  const bool stage = r.job.schedule.pipelined;
  const int64_t end = stage ? r.shard.end_sublayer : r.config.num_sublayers();
  std::vector<int64_t> sums;
  for (int64_t s = stage ? r.shard.first_sublayer : 0; s < end; ++s) {
    if (!may_be_cut(r.job, s)) continue;
    const int64_t matrices = is_attention(s) ? 1 : mlp_count(r.config, s);
    const int64_t width =
        is_attention(s) ? attention_features(r.config.attention(s)) : mlp_width(r.config, s);
    sums.push_back(matrices * gram_sum(width) + (gradients ? gram_sum(d) : 0));
  }
  const auto together = std::min<int64_t>(at_once, std::ssize(sums));
  int64_t most = 0;
  for (auto first = sums.begin(); sums.end() - first >= together && together > 0; ++first) {
    most = std::max(most, std::accumulate(first, first + together, int64_t{0}));
  }
  return most;
}

int64_t RankSizes::kept_sums() const {
  return r.shard.keeps_sums ? feature_sums(r.config.num_sublayers()) : 0;
}

/// Bytes at the features of a microbatch: the features in float32, on the CPU a block in float64,
/// and products of some rows.
int64_t RankSizes::at_features() const {
  const int64_t f = features;
  const int64_t block = on_gpu ? 0 : kDouble * f * std::min(kGramBlockTokens, tokens);
  return tokens * f * kFloat + block + 2 * kDouble * f * std::clamp<int64_t>(f / 8, 64, 1024);
}

/// Bytes to remove features, beside the sums, one of which is the Gram matrix. First its factor and
/// inverse. Then the inverse, the products of down, and what is left of both while features leave.
/// For a cut: the columns that are left, their rows and the factor, and the journal entry. A packed
/// matrix is unpacked into another one. If features are removed for a cut alone, the Gram matrix
/// stays, on the host.
int64_t RankSizes::removing() const {
  const int64_t f = features;
  const bool for_a_cut = !(r.job.mlp && r.job.mlp->allocated);
  const bool beside = packed || (for_a_cut && !on_gpu);
  const int64_t matrices = beside ? 3 : 2;
  const int64_t of_metric = gradients ? 3 * square : 0;
  return kDouble * std::max(matrices * f * f + 2 * d * f, 6 * d * f) + of_metric;
}

/// Bytes to solve a junction, beside what waited: costs, kernel and plan of Sinkhorn, or the plan,
/// its decomposition and Q; and M.
int64_t RankSizes::solving() const {
  const int64_t uploaded = on_gpu && pca ? square + metric : 0;
  // An oblique map also needs its decomposition, M_inv and two products.
  const int64_t turned = oblique ? 4 * rectangle + 2 * k * k * kDouble : 0;
  if (!transport) return uploaded + 2 * rectangle + turned;
  const int64_t kernel_and_plan = on_gpu ? 7 * rectangle : 3 * rectangle;
  return uploaded + std::max(kernel_and_plan, 3 * rectangle + 2 * k * k * kDouble + turned);
}

/// Peak of one junction at a time. All ranks add up its sums and one rank solves it.
int64_t RankSizes::junction() const {
  const int64_t reduced = r.job.resources.ranks > 1 ? square : 0;  // buffers of MPI and NCCL
  const int64_t first = first_sums + std::max(at_junction(), reduced);
  const int64_t decomposing = square + eigen;
  const int64_t second = second_sums + std::max(at_junction(), reduced);
  return std::max(
      described_beside() + std::max({first, decomposing, second, waiting_to_solve + solving()}),
      waiting_to_solve + describing());
}

/// Bytes to describe a solved junction in the background, where its map is also written.
int64_t RankSizes::describing() const {
  const int64_t R = transport ? k * k * kDouble : 0;
  const int64_t maps = (oblique ? 2 : 1) * rectangle;
  const int64_t written = fold_bytes == kDouble ? 0 : maps / kDouble * fold_bytes;
  const int64_t decomposed = pca && !oblique ? 0 : 2 * square;
  return written + decomposed + maps + rectangle + R;
}

/// Bytes to align two maps, each completed to a basis, with the products of their parts. The
/// rotation and the factors of the two maps before are being written.
int64_t RankSizes::aligning() const {
  // Holds the map in float64 and with γ; their product, its eigenvectors and a copy.
  if (turns_norm) return 2 * rectangle + 4 * k * k * kDouble;
  if (turns_stock) return 2 * k * k * kDouble;
  if (!aligns) return 0;
  const int64_t shortcut = oblique ? 2 * rectangle + 3 * k * k * kDouble : 0;
  return 4 * rectangle + 3 * square + shortcut +
         (r.shard.overlaps ? fold_bytes * k * (2 * d - k) : 0);
}

/// Bytes to fold: a sublayer as it was read, its folded in_proj, the sublayer before it, which is
/// being written, and the maps at both sides. Or as much of the vocabulary.
int64_t RankSizes::folding() const {
  const int64_t shortcut = shortcut_parameters(shortcut_form(k, k, d, oblique), k, k);
  int64_t most = kFoldedVocabularyRows * (d + 2 * k) + d * k;
  int64_t before = 0;
  int64_t before_last = 0;
  for (int64_t s = r.shard.first_sublayer; s < r.shard.end_sublayer; ++s) {
    const int64_t dense = sublayer_parameters(r.config, s, d, d, /*folded=*/false);
    const int64_t folded =
        sublayer_parameters(r.config, s, k, k, /*folded=*/true) - k * k + shortcut;
    // The next one is uploaded meanwhile.
    const bool ahead = on_gpu && s + 1 < r.shard.end_sublayer;
    const int64_t next = ahead ? sublayer_parameters(r.config, s + 1, d, d, false) : 0;
    most = std::max(most, before + dense + next + folded * 2 / 3);
    before_last = std::exchange(before, r.shard.overlaps ? folded : 0);
  }
  int64_t half_folded_of_rank = 0;  // largest one
  for (int64_t s = r.shard.first_sublayer; s < r.shard.end_run(r.job.widths.mapped_count); ++s) {
    half_folded_of_rank = std::max(half_folded_of_rank, half_folded(s));
  }
  // Beside the maps: one map in float64 and rotated, its rotation, the rotation to the next map and
  // their product.
  int64_t rotated = 0;
  if (turns_norm) {
    rotated = 2 * rectangle + k * k * kDouble;
  } else if (turns_stock || aligns) {
    rotated = (oblique ? 4 : 2) * rectangle + (turns_stock ? 1 : 3) * k * k * kDouble;
  }
  // A last junction of full width gets a basis, once the in_proj before it is folded.
  const bool gets_basis = aligns && has_head && !r.job.maps.head_sliced;
  const int64_t last_basis = gets_basis ? 4 * square + (oblique ? 4 * rectangle : 0) : 0;
  // Both maps, one that is scaled by the norm, and rows on their way through it.
  const int64_t maps = fold_bytes * (kFoldedVocabularyRows * d + (oblique ? 5 : 3) * d * k);
  return maps + std::max(fold_bytes * most + rotated,
                         fold_bytes * (before_last + half_folded_of_rank) + last_basis);
}

}  // namespace dotresize
