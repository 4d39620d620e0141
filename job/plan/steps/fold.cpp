// Rotates neighbouring maps into each other, folds all maps into the weights, and writes them.
#include <algorithm>
#include <utility>

#include "job/model/model_size.h"
#include "job/plan/allocate/junction_widths.h"
#include "job/plan/estimate/job_time.h"
#include "job/plan/net_size.h"
#include "job/plan/steps/step.h"

namespace dotresize {
namespace {

/// Rotations of the maps.
struct Turns {
  explicit Turns(const RankSizes& r)
      : aligns(!r.job.maps.shared &&
               std::ranges::any_of(shortcut_forms(r.job.widths.all, r.d, r.oblique),
                                   [](const ShortcutForm& form) { return !form.dense(); })),
        stock(r.job.stock_output()),
        norm(stock && r.config.tie_word_embeddings) {}

  const bool aligns;  ///< maps at both ends of a shortcut of low rank are rotated into each other
  const bool stock;   ///< there is one map, rotated as a stock output needs it
  const bool norm;    ///< the one map is rotated for a tied head
};

/// Bytes to align two maps, each completed to a basis, with the products of their parts. The
/// rotation and the factors of the two maps before are being written.
int64_t aligning(const RankSizes& r, const Turns& turns) {
  // Holds the map in float64 and with γ; their product, its eigenvectors and a copy.
  if (turns.norm) return 2 * r.rectangle + 4 * r.k * r.k * kDouble;
  if (turns.stock) return 2 * r.k * r.k * kDouble;
  if (!turns.aligns) return 0;
  const int64_t shortcut = r.oblique ? 2 * r.rectangle + 3 * r.k * r.k * kDouble : 0;
  return 4 * r.rectangle + 3 * r.square + shortcut +
         (r.shard.overlaps ? r.fold_bytes * r.k * (2 * r.d - r.k) : 0);
}

/// Bytes to fold: a sublayer as it was read, its folded in_proj, the sublayer before it, which is
/// being written, and the maps at both sides. Or as much of the vocabulary.
int64_t folding(const RankSizes& r, const Turns& turns) {
  const auto& [d, k] = std::pair(r.d, r.k);
  const int64_t shortcut = shortcut_parameters(shortcut_form(k, k, d, r.oblique), k, k);
  int64_t most = kFoldedVocabularyRows * (d + 2 * k) + d * k;
  int64_t before = 0;
  int64_t before_last = 0;
  for (int64_t s = r.shard.first_sublayer; s < r.shard.end_sublayer; ++s) {
    const int64_t folded =
        sublayer_parameters(r.config, s, k, k, /*folded=*/true) - k * k + shortcut;
    // The next one is uploaded meanwhile.
    const bool ahead = r.on_gpu && s + 1 < r.shard.end_sublayer;
    const int64_t next = ahead ? r.dense_parameters(s + 1) : 0;
    most = std::max(most, before + r.dense_parameters(s) + next + folded * 2 / 3);
    before_last = std::exchange(before, r.shard.overlaps ? folded : 0);
  }
  int64_t half_folded = 0;  // largest one of the rank
  for (int64_t s = r.shard.first_sublayer; s < r.shard.end_run(r.job.widths.mapped_count); ++s) {
    half_folded = std::max(half_folded, r.half_folded(s));
  }
  // Beside the maps: one map in float64 and rotated, its rotation, the rotation to the next map and
  // their product.
  int64_t rotated = 0;
  if (turns.norm) {
    rotated = 2 * r.rectangle + k * k * kDouble;
  } else if (turns.stock || turns.aligns) {
    rotated = (r.oblique ? 4 : 2) * r.rectangle + (turns.stock ? 1 : 3) * k * k * kDouble;
  }
  // A last junction of full width gets a basis, once the in_proj before it is folded.
  const bool gets_basis = turns.aligns && r.has_head && !r.job.maps.head_sliced;
  const int64_t last_basis = gets_basis ? 4 * r.square + (r.oblique ? 4 * r.rectangle : 0) : 0;
  // Both maps, one that is scaled by the norm, and rows on their way through it.
  const int64_t maps = r.fold_bytes * (kFoldedVocabularyRows * d + (r.oblique ? 5 : 3) * d * k);
  return maps + std::max(r.fold_bytes * most + rotated,
                         r.fold_bytes * (before_last + half_folded) + last_basis);
}

int64_t fold_memory(const RankSizes& r) {
  const Turns turns(r);
  return std::max(sums_junctions(r.job) ? aligning(r, turns) : 0, folding(r, turns));
}

double vocabulary_operations(const ModelConfig& config, const ResolvedJob& job) {
  return 2.0 * number(config.vocab_size) * number(config.hidden_size) *
         number(job.widths.largest());
}

void add_fold_work(JobWork& work) {
  const int64_t width = work.job.widths.largest();
  for (std::size_t s = 0; s < work.operations.size(); ++s) {
    const FoldCounts fold = fold_counts(work.config, static_cast<int64_t>(s), width);
    work.operations[s] += fold.in_proj;
    work.operations[s] += fold.out_proj;
  }
  work.embedding += vocabulary_operations(work.config, work.job);
  work.head += vocabulary_operations(work.config, work.job);
}

/// Calls visit(form) for each shortcut of sublayers [first, end) whose maps are rotated into each
/// other.
template <class Visit>
void for_each_aligned(const JobParts& parts, const ModelConfig& output, int64_t first, int64_t end,
                      const Visit& visit) {
  if (parts.job.maps.shared) return;
  for (int64_t s = first; s < std::min(end, parts.job.widths.mapped_count - 1); ++s) {
    if (!output.shortcut(s).dense()) visit(output.shortcut(s));
  }
}

/// The journal has the rotations.
void add_fold_traffic(const JobParts& parts, Traffic& traffic) {
  const auto& [config, job, plan] = parts;
  const ModelConfig output = output_model_config(config, job, job.widths);
  traffic.read_bytes += stored_bytes(config) + config.copied_bytes();
  traffic.written_bytes += stored_bytes(output) + config.copied_bytes();
  const int64_t k = job.widths.largest();
  const int64_t size = folds_in_float64(job.output.dtypes.main) ? kDouble : kFloat;
  for_each_aligned(parts, output, 0, config.num_sublayers(), [&](const ShortcutForm& form) {
    traffic.journal_bytes += size * (k * k + shortcut_parameters(form, k, k));
  });
}

/// Work to rotate two neighbouring maps into each other.
struct AlignCounts {
  double qr = 0.0;        ///< operations, as hardware.proto counts them
  double values = 0.0;    ///< likewise, at the rate of a singular value decomposition
  double products = 0.0;  ///< floating-point operations, float64
  double chain = 0.0;     ///< likewise; each rank does it for the junctions of all ranks
  double turn = 0.0;      ///< bytes of the rotation that the journal keeps
};

AlignCounts align_counts(const JobTime& t) {
  const double d = t.d;
  const double k = t.k;
  const double r = d - k;
  AlignCounts counts = {4.0 * d * d * k, 60.0 * r * r * r,
                        4.0 * d * k * k + 4.0 * d * k * r + 2.0 * k * k * r, 2.0 * k * k * k,
                        k * k * (folds_in_float64(t.job.output.dtypes.main) ? 8.0 : 4.0)};
  if (t.job.oblique_maps()) {
    counts.values += 20.0 * k * r * r;
    counts.products += 2.0 * d * k * k + 2.0 * k * k * k + 2.0 * k * k * r;
  }
  return counts;
}

double count_aligned(const JobParts& parts, const ModelConfig& output, int64_t first, int64_t end) {
  double count = 0.0;
  for_each_aligned(parts, output, first, end, [&](const ShortcutForm&) { count += 1.0; });
  return count;
}

PhaseTimes align_stage(const JobTime& t, const ModelConfig& output, const RankShard& shard) {
  const AlignCounts counts = align_counts(t);
  const double mine = count_aligned(t, output, shard.first_sublayer, shard.end_sublayer);
  const double bytes = mine * counts.turn;
  PhaseTimes times;
  times.add("align", mine * (counts.qr / t.rates.qr + counts.values / t.rates.svd +
                             counts.products / t.rates.float64_gemm));
  const double hash = bytes / t.rates.hash;
  const double beside_disk = t.beside(times.total()) - (t.rates.cuda ? hash : 0.0);
  times.add("journal",
            std::max(0.0, bytes / t.rates.disk_write - beside_disk) + (t.rates.cuda ? 0.0 : hash));
  return times;
}

/// Reading ahead and writing go on while the rank multiplies the rotations up to its own and folds.
PhaseTimes fold_stage(const JobTime& t, const ModelConfig& output, const RankShard& shard) {
  PhaseTimes work;  // without maps, the weights are only copied
  if (t.mapped > 0) {
    const double vocabulary = vocabulary_operations(t.config, t.job) / t.rates.fold_gemm;
    double fold = shard.first_sublayer == 0 && !output.form.embedding_projection ? vocabulary : 0.0;
    if (t.last(shard) && t.job.maps.head_sliced && !output.tie_word_embeddings) fold += vocabulary;
    const int64_t width = t.job.widths.largest();
    for_each_sublayer(shard, [&](int64_t s) {
      const FoldCounts counts = fold_counts(t.config, s, width);
      fold += (counts.in_proj + counts.out_proj) / t.rates.fold_gemm;
    });
    work.add("align", count_aligned(t, output, 0, shard.end_sublayer) * align_counts(t).chain /
                          t.rates.float64_gemm);
    work.add("fold", fold);
  }
  PhaseTimes times = t.read_beside(work, t.disk(number(shard.size.bytes), t.config, true),
                                   t.convert(shard.size, Dtype::kFloat32));
  const auto written = number(shard_size(output, shard.first_sublayer, shard.end_sublayer).bytes);
  times.add("write", written / t.rates.disk_write - t.beside(times.total()));
  return times;
}

PhaseTimes fold_time(const JobTime& t) {
  const ModelConfig output = output_model_config(t.config, t.job, t.job.widths);
  PhaseTimes times =
      t.side_by_side([&](const RankShard& shard) { return align_stage(t, output, shard); });
  times.add(t.side_by_side([&](const RankShard& shard) { return fold_stage(t, output, shard); }));
  return times;
}

}  // namespace

FoldCounts fold_counts(const ModelConfig& config, int64_t sublayer, int64_t width) {
  const int64_t d = config.hidden_size;
  const double k = number(width);
  const auto both = number(sublayer_parameters(config, sublayer, d, d, /*folded=*/false));
  const auto in_proj = number(sublayer_parameters(config, sublayer, d, 0, /*folded=*/false));
  return {2.0 * in_proj * k, 2.0 * (both - in_proj) * k + 2.0 * number(d) * k * k};
}

constinit const Step kFoldStep = {.phase = kCalibrate,
                                  .after_cut = true,
                                  .memory = fold_memory,
                                  .work = add_fold_work,
                                  .traffic = add_fold_traffic,
                                  .time = fold_time};

}  // namespace dotresize
