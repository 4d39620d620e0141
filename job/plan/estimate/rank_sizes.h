#pragma once

#include <algorithm>
#include <cstdint>

#include "job/plan/allocate/inner_widths.h"
#include "job/plan/block_sizes.h"
#include "job/plan/estimate/memory_estimate.h"
#include "job/plan/token_windows.h"

namespace dotresize {

/// Sizes of one rank that the phases are made of, in bytes unless a comment says otherwise.
struct RankSizes {
  explicit RankSizes(const RankMemory& rank)
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

}  // namespace dotresize
