#include "job/plan/estimate/memory_estimate.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <utility>
#include <vector>

#include "job/model/model_size.h"
#include "job/plan/allocate/inner_widths.h"
#include "job/plan/allocate/junction_widths.h"
#include "job/plan/allocate/shortcut_forms.h"
#include "job/plan/block_sizes.h"
#include "job/plan/token_windows.h"

namespace dotresize {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20;
/// Resident pages of the programs and their libraries, measured with a rank of a tiny model.
constexpr int64_t kHostLibraries = 190 * kMiB;
constexpr int64_t kHostLibrariesWithCuda = 1536 * kMiB;
constexpr int64_t kDeviceLibraries = 1024 * kMiB;

/// Sizes of one rank that the phases are made of, in bytes unless a comment says otherwise.
struct Sizes {
  explicit Sizes(const RankMemory& rank)
      : r(rank),
        d(rank.config.hidden_size),
        k(rank.job.widths.largest()),
        seqlen(expected_seqlen(rank.job, rank.config)),
        compute_bytes(size_in_bytes(rank.compute)),
        fold_bytes(folds_in_float64(rank.job.output.dtype) ? kDouble : kFloat),
        aligns(has_low_rank_shortcut(rank.job.maps.shortcuts, rank.job.widths.all,
                                     rank.job.maps.groups, d, rank.job.oblique_maps())),
        turns_stock(rank.job.stock_output()),
        turns_norm(turns_stock && rank.config.tie_word_embeddings) {}

  bool on_gpu() const { return r.device == DeviceKind::kCuda; }
  bool pca() const { return r.job.method.pca(); }
  bool transport() const { return r.job.method.transport(); }
  bool second_pass() const { return r.job.method.passes() > 1; }
  bool gradients() const { return r.job.gradients(); }
  bool oblique() const { return r.job.oblique_maps(); }
  bool has_head() const { return r.shard.end_sublayer == r.config.num_sublayers(); }

  /// Same as CalibrationJob::packs_sums. Ranks that share the tokens of a junction do not pack.
  bool packed() const { return on_gpu() && r.job.schedule.pipelined && compute_bytes < kFloat; }
  /// Bytes of a Gram matrix while it is summed: packed in blocks of rows (worker/maps/moments.cpp).
  int64_t gram_sum(int64_t width) const {
    if (!packed()) return width * width * kDouble;
    return width * (width + std::clamp<int64_t>(width / 8, 64, 1024)) / 2 * kFloat;
  }
  /// True if gradients go back in the passes for the features.
  bool cuts_go_back() const {
    return gradients() && !(r.job.target.allocation && r.job.maps.head_sliced);
  }
  int64_t square() const { return d * d * kDouble; }
  int64_t rectangle() const { return d * k * kDouble; }
  int64_t tokens() const { return microbatch_samples(seqlen) * seqlen; }
  /// Residual stream of a microbatch, and of a rank's share of the windows.
  int64_t microbatch_stream() const { return tokens() * d * kFloat; }
  int64_t microbatches() const {
    return (expected_samples(r.job) * seqlen + tokens() - 1) / std::max<int64_t>(1, tokens());
  }
  int64_t share_stream() const {
    return (microbatches() + r.job.resources.ranks - 1) / r.job.resources.ranks *
           microbatch_stream();
  }
  /// Comparison of predictions: states before both heads, blocks of both heads, logits of both and
  /// their exponentials, and what is compared in float64.
  int64_t comparing() const {
    const int64_t states = std::max(share_stream(), 2 * share_stream() / kFloat * compute_bytes);
    const int64_t rows = 2 * d * compute_bytes + 4 * tokens() * kFloat;
    return states + kComparedVocabularyRows * (rows + 4 * kComparedTokens * kDouble);
  }

  /// Parameters of the largest sublayer of any rank, with these widths at its junctions.
  int64_t largest_sublayer(int64_t k_in, int64_t k_out, bool folded) const;
  int64_t dense_sublayer() const { return largest_sublayer(d, d, false); }
  int64_t folded_sublayer() const { return largest_sublayer(k, k, true); }
  int64_t stage_weights() const;
  /// Weights of the rank's sublayers before `end`, and with gradients of the head.
  int64_t stage_weights(int64_t end) const;
  int64_t half_folded_sublayer() const;
  int64_t half_folded(int64_t sublayer) const;
  int64_t half_folded_of_rank() const;
  /// Parameters of a sublayer as it is read, and with its in_proj folded.
  struct Turn {
    int64_t dense = 0;
    int64_t half_folded = 0;
  };
  Turn largest_turn() const;
  /// Number of junctions of a group on this rank.
  int64_t junctions() const {
    return std::min(r.shard.junctions_at_once,
                    r.shard.junctions(summed_junctions(r.config, r.job)));
  }

  int64_t insides() const;
  int64_t at_junction() const;
  /// Peak of a pass over the tokens, beside weights and sums.
  int64_t microbatch() const;
  int64_t graph_bytes(int64_t sublayer) const;
  /// Peak of the way back, beside weights, sums and microbatch; 0 without gradients.
  int64_t backward() const { return gradients() ? way_back() : 0; }
  int64_t way_back() const;

  // Number of sublayers on this rank that are cut at once, each with the Gram matrix of its
  // features.
  int64_t cut_at_once() const {
    return std::min(r.shard.cuts_at_once,
                    count_cut_sublayers(r.job, r.shard.first_sublayer, r.shard.end_sublayer));
  }
  /// Largest number of features of one MLP, one expert or one attention.
  int64_t features() const;
  int64_t feature_sums(int64_t at_once) const;
  int64_t kept_sums() const;
  int64_t at_features() const;
  int64_t removing() const;

  int64_t first_sums() const {
    const int64_t costs = transport() && !pca() ? square() : 0;
    return gram_sum(d) * (gradients() ? 2 : 1) + costs;
  }
  int64_t whole_first_sums() const {
    return square() * ((transport() && !pca() ? 2 : 1) + (gradients() ? 1 : 0));
  }
  /// Factor of the metric and Gram matrix, which wait beside U.
  int64_t metric() const { return oblique() ? 2 * square() : 0; }
  int64_t second_sums() const;
  int64_t waiting_to_solve() const;
  int64_t eigen() const { return pca() ? (on_gpu() ? 4 : 3) * square() : 0; }
  int64_t solving() const;
  int64_t junction() const;
  int64_t describing() const;
  int64_t aligning() const;
  int64_t rotated_maps() const;
  int64_t last_basis() const;
  /// Describing a junction while something else is computed; 0 if nothing overlaps.
  int64_t described_beside() const { return r.shard.overlaps ? describing() : 0; }
  int64_t written_beside(int64_t bytes) const { return r.shard.overlaps ? bytes : 0; }
  int64_t folding() const;

  const RankMemory& r;
  int64_t d;
  int64_t k;
  int64_t seqlen;
  int64_t compute_bytes;
  int64_t fold_bytes;  ///< bytes of a number in folding
  bool aligns;         ///< true if maps are rotated into each other
  bool turns_stock;    ///< true if there is one map, rotated as a stock output needs it
  bool turns_norm;     ///< true if the one map is rotated for a tied head
};

int64_t Sizes::largest_sublayer(int64_t k_in, int64_t k_out, bool folded) const {
  // Layers differ only in the form of their MLP, so one of each form is enough.
  const ModelConfig& config = r.config;
  const std::vector<bool> dense(1, false);
  const std::vector<bool>& mixtures = config.mixture ? config.mixture->layers : dense;
  int64_t largest = sublayer_parameters(config, /*sublayer=*/0, k_in, k_out, folded);
  for (const bool form : {false, true}) {
    const auto layer = std::ranges::find(mixtures, form) - mixtures.begin();
    if (layer == std::ssize(mixtures)) continue;
    largest = std::max(largest, sublayer_parameters(config, 2 * layer + 1, k_in, k_out, folded));
  }
  return largest;
}

/// Parameters of the largest sublayer of any rank, with its in_proj, which is most of it, folded,
/// and its out_proj not.
int64_t Sizes::half_folded_sublayer() const {
  return folded_sublayer() * 2 / 3 + dense_sublayer() / 3;
}

int64_t Sizes::half_folded(int64_t sublayer) const {
  return sublayer_parameters(r.config, sublayer, k, k, /*folded=*/true) * 2 / 3 +
         sublayer_parameters(r.config, sublayer, d, d, /*folded=*/false) / 3;
}

/// Largest half-folded sublayer of this rank.
int64_t Sizes::half_folded_of_rank() const {
  const int64_t end = r.shard.end_run(r.job.widths.mapped_count);
  int64_t largest = 0;
  for (int64_t s = r.shard.first_sublayer; s < end; ++s) {
    largest = std::max(largest, half_folded(s));
  }
  return largest;
}

/// Largest sublayer that the rank reads before a junction with a map, when ranks take turns.
Sizes::Turn Sizes::largest_turn() const {
  const int64_t end = r.job.widths.mapped_count - 1;
  Turn largest;
  for (int64_t s = r.shard.rank; s < end; s += r.job.resources.ranks) {
    largest.dense = std::max(largest.dense, sublayer_parameters(r.config, s, d, d, false));
    largest.half_folded = std::max(largest.half_folded, half_folded(s));
  }
  return largest;
}

int64_t Sizes::stage_weights() const {
  return stage_weights(gradients() ? r.shard.end_sublayer
                                   : r.shard.end_run(summed_junctions(r.config, r.job)));
}

int64_t Sizes::stage_weights(int64_t end) const {
  int64_t parameters = gradients() && has_head() ? r.config.vocab_size * d : 0;
  for (int64_t sublayer = r.shard.first_sublayer; sublayer < end; ++sublayer) {
    parameters += sublayer_parameters(r.config, sublayer, d, d, /*folded=*/false);
  }
  return parameters * compute_bytes;
}

/// Bytes of a microbatch inside a sublayer. Heads are rotated and repeated into copies.
int64_t Sizes::insides() const {
  const ModelConfig& config = r.config;
  const int64_t queries = config.attention.num_heads * config.attention.head_dim;
  const int64_t keys = config.attention.num_kv_heads * config.attention.head_dim;
  const int64_t padded = r.job.allocates_values() ? keys : 0;  // values of narrower heads
  const int64_t attention = 5 * queries + 4 * keys + padded;
  const int64_t mlp = 3 * config.intermediate_size;
  // Tokens of an expert are gathered, and its results are added up.
  const int64_t mixture = config.mixture ? 3 * (config.mixture->intermediate_size + d) : 0;
  // Everything between two float16 products is float32.
  const int64_t bytes = r.compute == Dtype::kFloat16 ? kFloat : compute_bytes;
  return tokens() * (bytes * (std::max({attention, mlp, mixture}) + d) + kFloat * d);
}

/// Bytes of a microbatch while its sums are taken: the rotated copy and the copy for the cost
/// kernel. The CPU also has a block in float64 and the products of some of its rows.
int64_t Sizes::at_junction() const {
  const int64_t gram =
      on_gpu()
          ? square() / 8
          : kDouble * d * (std::min(kGramBlockTokens, tokens()) + 2 * std::min<int64_t>(d, 1024));
  const int64_t costs = transport() ? 2 * microbatch_stream() + (on_gpu() ? 2 * square() : 0) : 0;
  return std::max(gram, costs);
}

int64_t Sizes::microbatch() const {
  const int64_t transfers = r.job.resources.ranks > 1 ? 2 * microbatch_stream() : 0;
  return transfers + microbatch_stream() + std::max(insides(), at_junction());
}

/// Bytes per token that autograd keeps in a sublayer, beside its input. Attention: its heads,
/// repeated and padded, the result, the input of head norms, and a row of a mask. MLP: both parts
/// and the gate's activation. Mixture: those of the token's experts, and their results.
int64_t Sizes::graph_bytes(int64_t sublayer) const {
  const ModelConfig& config = r.config;
  const int64_t between = r.compute == Dtype::kFloat16 ? kFloat : compute_bytes;
  const int64_t norms = (2 * kFloat + between) * d;
  if (is_attention(sublayer)) {
    const int64_t queries = config.attention.num_heads * config.attention.head_dim;
    const int64_t keys = config.attention.num_kv_heads * config.attention.head_dim;
    const int64_t normed = config.attention.head_norms ? (queries + keys) * (kFloat + between) : 0;
    const int64_t mask = config.attention.sliding_window ? seqlen * (1 + kFloat) : 0;
    return norms + 5 * queries * compute_bytes + normed + mask +
           config.attention.num_heads * kFloat;
  }
  if (!config.is_mixture(sublayer)) return norms + 3 * config.intermediate_size * between;
  const MixtureConfig& mixture = *config.mixture;
  return norms + mixture.experts * 3 * kFloat +
         mixture.experts_per_token * (3 * mixture.intermediate_size + 3 * d) * between;
}

/// Bytes of the way back: the microbatches that are not back yet (Checkpoints); in one sublayer
/// what its operations keep, and their gradients; blocks of logits and probabilities, whose memory
/// the allocator may not give to a sublayer.
int64_t Sizes::way_back() const {
  // Upper bound for the number of ranks behind this one.
  const int64_t behind = r.config.num_sublayers() - r.shard.end_sublayer;
  const int64_t under_way = std::min<int64_t>({r.job.resources.ranks, behind + 1, microbatches()});
  const int64_t sublayers = r.shard.end_sublayer - r.shard.first_sublayer;
  const int64_t transfers = r.job.resources.ranks > 1 ? 2 * microbatch_stream() : 0;
  const int64_t rows = std::min(kGradientVocabularyRows, r.config.vocab_size);
  const int64_t loss = has_head() ? tokens() * (6 * rows + 4 * d) * kFloat : 0;
  const bool stage = r.shard.checkpoints == Checkpoints::kStage;
  const int64_t inputs = stage ? under_way + sublayers + 1 : under_way * (sublayers + 1);
  int64_t graphs = 0;
  if (r.shard.checkpoints == Checkpoints::kNone) {
    for (int64_t s = r.shard.first_sublayer; s < r.shard.end_sublayer; ++s) {
      graphs += under_way * tokens() * graph_bytes(s);
    }
  }
  return inputs * microbatch_stream() + graphs + transfers + 3 * insides() + loss;
}

int64_t Sizes::features() const {
  const int64_t dense = has_dense_mlp(r.config) ? r.config.intermediate_size : 0;
  const int64_t attention = r.job.allocates_values() ? attention_features(r.config) : 0;
  return std::max({dense, r.config.mixture ? r.config.mixture->intermediate_size : 0, attention});
}

/// Bytes for the sums of the `at_once` neighbouring sublayers that need most: an MLP, all experts
/// of a mixture, or an attention, and the gradients behind it.
int64_t Sizes::feature_sums(int64_t at_once) const {
  // Ranks that share the tokens meet the MLPs of all ranks.
  const bool stage = r.job.schedule.pipelined;
  const int64_t end = stage ? r.shard.end_sublayer : r.config.num_sublayers();
  std::vector<int64_t> sums;
  for (int64_t s = stage ? r.shard.first_sublayer : 0; s < end; ++s) {
    if (!may_be_cut(r.job, s)) continue;
    const int64_t matrices = is_attention(s) ? 1 : mlp_count(r.config, s);
    const int64_t width = is_attention(s) ? attention_features(r.config) : mlp_width(r.config, s);
    sums.push_back(matrices * gram_sum(width) + (cuts_go_back() ? gram_sum(d) : 0));
  }
  const auto together = std::min<int64_t>(at_once, std::ssize(sums));
  int64_t most = 0;
  for (auto first = sums.begin(); sums.end() - first >= together && together > 0; ++first) {
    most = std::max(most, std::accumulate(first, first + together, int64_t{0}));
  }
  return most;
}

/// Bytes for the sums of all the rank's sublayers, if they are kept.
int64_t Sizes::kept_sums() const {
  return r.shard.keeps_sums ? feature_sums(r.config.num_sublayers()) : 0;
}

/// Bytes at the features of a microbatch: the features in float32, on the CPU a block in float64,
/// and products of some rows.
int64_t Sizes::at_features() const {
  const int64_t f = features();
  const int64_t block = on_gpu() ? 0 : kDouble * f * std::min(kGramBlockTokens, tokens());
  return tokens() * f * kFloat + block + 2 * kDouble * f * std::clamp<int64_t>(f / 8, 64, 1024);
}

/// Bytes to remove features, beside the sums, one of which is the Gram matrix. First its factor and
/// inverse. Then the inverse, the products of down, and what is left of both while features leave.
/// For a cut: the columns that are left, their rows and the factor, and the journal entry. A packed
/// matrix is unpacked into another one. If features are removed for a cut alone, the Gram matrix
/// stays, on the host.
int64_t Sizes::removing() const {
  const int64_t f = features();
  const bool for_a_cut = !(r.job.mlp && r.job.mlp->allocated);
  const bool beside = packed() || (for_a_cut && !on_gpu());
  const int64_t matrices = beside ? 3 : 2;
  const int64_t metric = gradients() ? 3 * square() : 0;
  return kDouble * std::max(matrices * f * f + 2 * d * f, 6 * d * f) + metric;
}

int64_t Sizes::second_sums() const {
  if (!second_pass()) return 0;
  return square() + square() / 2 + (on_gpu() ? 0 : square() + metric());
}

/// Bytes that a junction of a group holds after the passes.
int64_t Sizes::waiting_to_solve() const {
  if (!pca()) return whole_first_sums();
  return (transport() ? square() : 0) + (on_gpu() ? 0 : square() + metric());
}

/// Bytes to solve a junction, beside what waited: costs, kernel and plan of Sinkhorn, or the plan,
/// its decomposition and Q; and M.
int64_t Sizes::solving() const {
  const int64_t uploaded = on_gpu() && pca() ? square() + metric() : 0;
  // An oblique map also needs its decomposition, M_inv and two products.
  const int64_t turned = oblique() ? 4 * rectangle() + 2 * k * k * kDouble : 0;
  if (!transport()) return uploaded + 2 * rectangle() + turned;
  const int64_t kernel_and_plan = on_gpu() ? 7 * rectangle() : 3 * rectangle();
  return uploaded + std::max(kernel_and_plan, 3 * rectangle() + 2 * k * k * kDouble + turned);
}

/// Peak of one junction at a time. All ranks add up its sums and one rank solves it.
int64_t Sizes::junction() const {
  const int64_t reduced = r.job.resources.ranks > 1 ? square() : 0;  // buffers of MPI and NCCL
  const int64_t first = first_sums() + std::max(at_junction(), reduced);
  const int64_t decomposing = square() + eigen();
  const int64_t second = second_sums() + std::max(at_junction(), reduced);
  return std::max(
      described_beside() + std::max({first, decomposing, second, waiting_to_solve() + solving()}),
      waiting_to_solve() + describing());
}

/// Bytes to describe a solved junction in the background, where its map is also written.
int64_t Sizes::describing() const {
  const int64_t R = transport() ? k * k * kDouble : 0;
  const int64_t maps = (oblique() ? 2 : 1) * rectangle();
  const int64_t written = fold_bytes == kDouble ? 0 : maps / kDouble * fold_bytes;
  const int64_t decomposed = pca() && !oblique() ? 0 : 2 * square();
  return written + decomposed + maps + rectangle() + R;
}

/// Bytes to align two maps, each completed to a basis, with the products of their parts. The
/// rotation and the factors of the two maps before are being written.
int64_t Sizes::aligning() const {
  // Holds the map in float64 and with γ; their product, its eigenvectors and a copy.
  if (turns_norm) return 2 * rectangle() + 4 * k * k * kDouble;
  if (turns_stock) return 2 * k * k * kDouble;
  if (!aligns) return 0;
  const int64_t shortcut = oblique() ? 2 * rectangle() + 3 * k * k * kDouble : 0;
  return 4 * rectangle() + 3 * square() + shortcut + written_beside(fold_bytes * k * (2 * d - k));
}

/// Bytes beside the maps of folding: one map in float64 and rotated, its rotation, the rotation to
/// the next map and their product.
int64_t Sizes::rotated_maps() const {
  if (turns_norm) return 2 * rectangle() + k * k * kDouble;
  if (turns_stock) return (oblique() ? 4 : 2) * rectangle() + k * k * kDouble;
  if (!aligns) return 0;
  return (oblique() ? 4 : 2) * rectangle() + 3 * k * k * kDouble;
}

/// Bytes of the basis that a last junction of full width gets, once the in_proj before it is
/// folded.
int64_t Sizes::last_basis() const {
  if (!aligns || !has_head() || r.job.maps.head_sliced) return 0;
  return 4 * square() + (oblique() ? 4 * rectangle() : 0);
}

/// Bytes to fold: a sublayer as it was read, its folded in_proj, the sublayer before it, which is
/// being written, and the maps at both sides. Or as much of the vocabulary.
int64_t Sizes::folding() const {
  const int64_t shortcut =
      shortcut_parameters(shortcut_form(r.job.maps.shortcuts, k, k, d, oblique()), k, k);
  int64_t most = kFoldedVocabularyRows * (d + 2 * k) + d * k;
  int64_t before = 0;
  int64_t before_last = 0;
  for (int64_t s = r.shard.first_sublayer; s < r.shard.end_sublayer; ++s) {
    const int64_t dense = sublayer_parameters(r.config, s, d, d, /*folded=*/false);
    const int64_t folded =
        sublayer_parameters(r.config, s, k, k, /*folded=*/true) - k * k + shortcut;
    // The next one is uploaded meanwhile.
    const bool ahead = on_gpu() && s + 1 < r.shard.end_sublayer;
    const int64_t next = ahead ? sublayer_parameters(r.config, s + 1, d, d, false) : 0;
    most = std::max(most, before + dense + next + folded * 2 / 3);
    before_last = std::exchange(before, written_beside(folded));
  }
  // Both maps, one that is scaled by the norm, and rows on their way through it.
  const int64_t maps = fold_bytes * (kFoldedVocabularyRows * d + (oblique() ? 5 : 3) * d * k);
  return maps + std::max(fold_bytes * most + rotated_maps(),
                         fold_bytes * (before_last + half_folded_of_rank()) + last_basis());
}

}  // namespace

int64_t RankMemory::pipeline() const {
  const Sizes s(*this);
  const int64_t n = s.junctions();
  const int64_t weights = s.stage_weights();
  const int64_t first = n * s.first_sums() + s.microbatch() + s.backward();
  // Sums of a shared map, and the sums that are added to them.
  const int64_t shared = job.maps.groups.empty() ? 0 : 2 * s.whole_first_sums() + s.square();
  // The metric of the loss decomposes one more matrix. Packed sums are unpacked.
  const int64_t whole = (s.packed() ? s.whole_first_sums() : 0) + (s.oblique() ? s.square() : 0);
  const int64_t last = std::max(s.solving(), s.describing());
  const int64_t more = n > 1 ? std::max(s.described_beside() + s.solving(), s.describing()) : 0;
  int64_t passes = weights + first;
  int64_t solving = 0;
  if (s.second_pass() || takes_no_tokens(job) || shared > 0) {
    // All junctions of a group are decomposed, and wait.
    const int64_t decomposing = std::max(n * (s.square() + s.metric()), shared) + s.eigen() + whole;
    const int64_t second = s.second_pass() ? n * s.second_sums() + s.microbatch() : 0;
    passes = std::max(passes, weights + std::max(decomposing, second));
    solving = std::max((n - 1) * s.waiting_to_solve() + more, s.waiting_to_solve() + last) + shared;
    if (takes_no_tokens(job)) {
      passes = decomposing;
    } else if (shared > 0) {
      solving += weights;
    }
  } else {
    // Each junction is decomposed when its turn comes, while one before is described.
    const int64_t beside = n > 1 ? s.described_beside() : 0;
    const int64_t decomposing = n * s.first_sums() + s.eigen() + whole + beside;
    solving = std::max({decomposing, (n - 1) * s.first_sums() + s.waiting_to_solve() + more,
                        s.waiting_to_solve() + last});
  }
  return std::max({passes, solving, s.aligning(), s.folding()});
}

int64_t RankMemory::bases() const {
  if (!job.target.allocation) return 0;
  const Sizes s(*this);
  const int64_t n = std::min(shard.bases_at_once, shard.junctions(job.widths.mapped_count));
  // Each junction has two float32 matrices, beside the pass or beside what they are made of.
  const int64_t seen =
      n * s.square() +
      std::max(s.stage_weights(shard.end_sublayer) + s.microbatch() + s.backward(), 3 * s.square());
  // Factors and eigenvectors of two junctions; their maps and the rotation between these.
  return std::max(seen, 14 * s.square());
}

int64_t RankMemory::folding() const { return Sizes(*this).folding(); }

int64_t RankMemory::layerwise() const {
  const Sizes s(*this);
  const int64_t sublayers = s.on_gpu() ? 2 : 1;
  const int64_t forward = s.described_beside() + sublayers * s.dense_sublayer() * s.compute_bytes +
                          s.microbatch_stream() + s.insides();
  // Each junction that waits has its stream. The one that the rank owns has its sums.
  const int64_t together = shard.solved_together;
  const int64_t streams = s.second_pass() ? together : 1;
  const int64_t sums = together > 1 ? s.first_sums() + (s.second_pass() ? s.square() : 0) : 0;
  return std::max({streams * s.share_stream() + sums + std::max(s.junction(), forward),
                   s.aligning(), s.folding()});
}

int64_t RankMemory::token_parallel() const {
  const Sizes s(*this);
  // GPU ranks upload the sublayer of their next turn all the while.
  const Sizes::Turn turn = s.largest_turn();
  const int64_t ahead = s.on_gpu() ? s.fold_bytes * turn.dense : 0;
  const int64_t map = s.fold_bytes * s.d * s.k;
  const int64_t folding = s.fold_bytes * (2 * s.d * s.k + turn.dense + turn.half_folded);
  // A rank sends what it has folded, unless it computes in another dtype.
  const int64_t sent = s.half_folded_sublayer();
  const int64_t converting = s.compute_bytes == s.fold_bytes ? 0 : s.fold_bytes * sent;
  const int64_t forward =
      s.compute_bytes * sent + std::max(converting, s.microbatch_stream() + s.insides());
  const int64_t sublayer = s.described_beside() + map + std::max(folding, forward);
  return std::max(
      {s.share_stream() + ahead + std::max(s.junction(), sublayer), s.aligning(), s.folding()});
}

int64_t RankMemory::evaluation() const {
  if (!job.evaluation && !job.target.allocation && !job.heals()) return 0;
  const Sizes s(*this);
  const int64_t sublayers = s.on_gpu() ? 2 : 1;  // the next one is uploaded
  const int64_t sublayer = std::max(s.dense_sublayer(), s.folded_sublayer()) * s.compute_bytes;
  const int64_t forward = sublayers * sublayer + s.microbatch_stream() + s.insides();
  const int64_t head = kEvaluatedVocabularyRows * (s.d * s.compute_bytes + 3 * s.tokens() * kFloat);
  const int64_t alone = s.share_stream() + std::max(forward, head);
  const bool compares = job.compares_predictions() || job.target.allocation;
  return compares ? std::max(alone, s.comparing()) : alone;
}

int64_t RankMemory::layer_healing() const {
  // Float16 products have no gradient of their weights, so the layer is trained in float32.
  const RankMemory trained{config, job, shard, device,
                           compute == Dtype::kFloat16 ? Dtype::kFloat32 : compute};
  const Sizes s(trained);
  const int64_t windows = job.healing->samples.value_or(expected_samples(job));
  const int64_t samples = microbatch_samples(s.seqlen);
  // Fitted and held-out windows have microbatches of their own: one more.
  const int64_t microbatches = (windows + samples - 1) / samples + 1;
  // Streams of the dense model and of the output, and the targets.
  const int64_t streams =
      3 * ((microbatches + job.resources.ranks - 1) / job.resources.ranks) * s.microbatch_stream();
  const int64_t batch = microbatches_per_step(fitted_microbatches(windows, s.seqlen));
  const int64_t gradients = (batch + job.resources.ranks - 1) / job.resources.ranks;
  int64_t layer = 0;
  int64_t graph = 0;
  for (int64_t l = 0; l < config.num_layers; ++l) {
    int64_t parameters = 0;
    int64_t kept = 0;
    for (const int64_t sublayer : {2 * l, 2 * l + 1}) {
      parameters += sublayer_parameters(config, sublayer, s.d, s.d, /*folded=*/false);
      kept += s.tokens() * s.graph_bytes(sublayer);
    }
    layer = std::max(layer, parameters);
    graph = std::max(graph, kept);
  }
  // Stored: the layer as it was folded, the best one so far and the one that is tried. In the
  // compute dtype: the weights, also on trial, and gradients. In float32: the slice of the rank.
  const int64_t weights = layer * (3 * size_in_bytes(job.output.dtype) + 2 * s.compute_bytes +
                                   gradients * s.compute_bytes) +
                          3 * kFloat * layer / job.resources.ranks;
  const int64_t summing = 2 * kDouble * s.dense_sublayer() / 2;  // for one tensor
  return streams + weights + std::max(graph + 3 * s.insides() + s.microbatch_stream(), summing);
}

/// Stage of the output with its updates, their gradients and moments, and the way back through it.
/// The last stage has both heads, and the logits of both models.
int64_t RankMemory::healing() const {
  if (!job.heals()) return 0;
  const Sizes s(*this);
  int64_t weights = 0;
  int64_t updates = 0;
  int64_t graph = 0;
  for (int64_t sublayer = shard.first_sublayer; sublayer < shard.end_sublayer; ++sublayer) {
    weights += sublayer_parameters(config, sublayer, s.d, s.d, /*folded=*/false);
    updates += update_parameters(config, sublayer);
    graph = std::max(graph, s.tokens() * s.graph_bytes(sublayer));
  }
  const int64_t rows = std::min(kGradientVocabularyRows, config.vocab_size);
  const int64_t heads =
      s.has_head() ? 2 * config.vocab_size * s.d * s.compute_bytes + 2 * s.tokens() * rows * kFloat
                   : 0;
  const int64_t whole = weights * s.compute_bytes + 4 * kFloat * updates + heads + s.microbatch() +
                        graph + s.way_back();
  return std::max(whole, layer_healing());
}

int64_t RankMemory::sublayer_cut() const {
  const Sizes s(*this);
  const int64_t n = s.cut_at_once();
  if (!job.mlp || (n == 0 && job.schedule.pipelined)) return 0;
  if (job.schedule.pipelined) {
    const int64_t pass = s.stage_weights(shard.end_sublayer) + s.microbatch() + s.at_features() +
                         (s.cuts_go_back() ? s.backward() : 0);
    const int64_t left = s.feature_sums(s.packed() ? 1 : n);  // the others are on the host
    return std::max(s.feature_sums(n) + pass, left + s.removing());
  }
  const int64_t reduced = job.resources.ranks > 1 ? kDouble * s.features() * s.features() : 0;
  const int64_t pass = s.microbatch_stream() + s.insides() + s.at_features();
  const int64_t sublayers = s.on_gpu() ? 2 : 1;
  return s.share_stream() + sublayers * s.dense_sublayer() * s.compute_bytes + s.feature_sums(1) +
         std::max({pass, reduced, s.removing()});
}

int64_t RankMemory::dense_round() const {
  if (!shard.dense_round) return 0;
  const Sizes s(*this);
  const int64_t features = s.feature_sums(s.cut_at_once());
  const int64_t left = s.packed() ? s.feature_sums(1) : features;
  const int64_t of_junctions = s.junctions() * s.first_sums();
  const int64_t pass = s.stage_weights(shard.end_sublayer) + s.microbatch() + s.at_features() +
                       s.backward() + of_junctions;
  const int64_t bases =
      of_junctions + 2 * s.square() + s.eigen() + (s.packed() ? s.whole_first_sums() : 0);
  return std::max(features + std::max(pass, bases), left + kept_on_device() + s.removing());
}

int64_t RankMemory::kept_on_device() const {
  return device == DeviceKind::kCuda ? 0 : Sizes(*this).kept_sums();
}

int64_t RankMemory::host_beside_gpu() const {
  const Sizes s(*this);
  const int64_t n = s.junctions();
  // Without a second pass one junction waits while another is solved.
  const int64_t waiting =
      s.pca() ? (s.second_pass() ? n : std::min<int64_t>(n, 2)) * (s.square() + s.metric()) : 0;
  // Weights are there three times: as read, in pinned memory, and one more copy.
  const int64_t read = s.dense_sublayer() * std::max(s.fold_bytes, s.compute_bytes);
  // Packed sums of features wait on the host.
  const int64_t summed = s.packed() ? s.feature_sums(s.cut_at_once()) : 0;
  const bool for_a_cut = job.mlp && !job.mlp->allocated;
  const int64_t copied = for_a_cut ? kDouble * s.features() * s.features() : 0;
  return std::max({waiting, s.kept_sums(), summed + copied}) + 3 * read;
}

int64_t RankMemory::libraries() const {
  return device == DeviceKind::kCuda ? kDeviceLibraries : kHostLibraries;
}

namespace {

/// Peak of a job: the dense model is evaluated and its MLPs are cut; then comes the schedule.
int64_t peak_of(const RankMemory& dense) {
  const ModelConfig cut = with_widest_mlps(dense.config, dense.job.mlp);
  const RankMemory rank{cut, dense.job, dense.shard, dense.device, dense.compute};
  const int64_t kept = dense.kept_on_device();
  return std::max({dense.job.schedule.memory(rank), kept + dense.evaluation(),
                   kept + dense.sublayer_cut(), dense.dense_round(), kept + dense.bases(),
                   dense.healing()}) +
         dense.libraries();
}

}  // namespace

bool cut_fits(const ModelConfig& config, const ResolvedJob& job, const RankShard& shard) {
  const auto fits = [&](DeviceKind device, Dtype compute, const std::optional<int64_t>& budget) {
    const RankMemory rank{config, job, shard, device, compute};
    return !budget || rank.sublayer_cut() + rank.libraries() <= *budget;
  };
  return (job.resources.device == DeviceKind::kCuda ||
          fits(DeviceKind::kCpu, job.resources.compute_dtype, job.resources.memory)) &&
         (!job.resources.gpu_compute_dtype ||
          fits(DeviceKind::kCuda, *job.resources.gpu_compute_dtype, job.resources.device_memory));
}

int64_t estimate_peak_memory(const ModelConfig& config, const ResolvedJob& job,
                             const RankShard& shard) {
  const RankMemory rank{config, job, shard, job.resources.device, job.resources.compute_dtype};
  if (job.resources.device == DeviceKind::kCuda)
    return rank.host_beside_gpu() + kHostLibrariesWithCuda;
  return peak_of(rank);
}

int64_t estimate_peak_device_memory(const ModelConfig& config, const ResolvedJob& job,
                                    const RankShard& shard) {
  if (!job.resources.gpu_compute_dtype) return 0;
  return peak_of({config, job, shard, DeviceKind::kCuda, *job.resources.gpu_compute_dtype});
}

int64_t evaluation_tokens_at_once(const ResolvedJob& job, const ModelConfig& config) {
  return expected_samples(job) * expected_seqlen(job, config);
}

}  // namespace dotresize
