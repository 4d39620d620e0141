#include "job/plan/estimate/memory_estimate.h"

#include <algorithm>

#include "job/model/model_size.h"
#include "job/plan/allocate/inner_widths.h"
#include "job/plan/block_sizes.h"
#include "job/plan/healing.h"

namespace dotresize {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20;
/// Resident pages of the programs and their libraries, measured with a rank of a tiny model.
constexpr int64_t kHostLibraries = 190 * kMiB;
constexpr int64_t kHostLibrariesWithCuda = 1536 * kMiB;
constexpr int64_t kDeviceLibraries = 1024 * kMiB;

}  // namespace

int64_t RankMemory::pipeline() const {
  const RankSizes s(*this);
  const int64_t n = s.junctions;
  const int64_t weights = s.stage_weights(
      s.gradients ? shard.end_sublayer : shard.end_run(summed_junctions(config, job)));
  const int64_t first = n * s.first_sums + s.microbatch() + s.backward();
  // Sums of a shared map, and the sums that are added to them.
  const int64_t shared = job.maps.shared ? 2 * s.whole_first_sums + s.square : 0;
  // The metric of the loss decomposes one more matrix. Packed sums are unpacked.
  const int64_t whole = (s.packed ? s.whole_first_sums : 0) + (s.oblique ? s.square : 0);
  const int64_t last = std::max(s.solving(), s.describing());
  const int64_t more = n > 1 ? std::max(s.described_beside() + s.solving(), s.describing()) : 0;
  int64_t passes = weights + first;
  int64_t solving = 0;
  if (s.second_pass || takes_no_tokens(job) || shared > 0) {
    // All junctions of a group are decomposed, and wait.
    const int64_t decomposing = std::max(n * (s.square + s.metric), shared) + s.eigen + whole;
    const int64_t second = s.second_pass ? n * s.second_sums + s.microbatch() : 0;
    passes = std::max(passes, weights + std::max(decomposing, second));
    solving = std::max((n - 1) * s.waiting_to_solve + more, s.waiting_to_solve + last) + shared;
    if (takes_no_tokens(job)) {
      passes = decomposing;
    } else if (shared > 0) {
      solving += weights;
    }
  } else {
    // Each junction is decomposed when its turn comes, while one before is described.
    const int64_t beside = n > 1 ? s.described_beside() : 0;
    const int64_t decomposing = n * s.first_sums + s.eigen + whole + beside;
    solving = std::max({decomposing, (n - 1) * s.first_sums + s.waiting_to_solve + more,
                        s.waiting_to_solve + last});
  }
  return std::max({passes, solving, s.aligning(), s.folding()});
}

int64_t RankMemory::layerwise() const {
  const RankSizes s(*this);
  const int64_t sublayers = s.on_gpu ? 2 : 1;
  const int64_t forward = s.described_beside() + sublayers * s.dense_sublayer * s.compute_bytes +
                          s.microbatch_stream + s.insides();
  // Each junction that waits has its stream. The one that the rank owns has its sums.
  const int64_t together = shard.solved_together;
  const int64_t streams = s.second_pass ? together : 1;
  const int64_t sums = together > 1 ? s.first_sums + (s.second_pass ? s.square : 0) : 0;
  return std::max({streams * s.share_stream + sums + std::max(s.junction(), forward), s.aligning(),
                   s.folding()});
}

int64_t RankMemory::token_parallel() const {
  const RankSizes s(*this);
  // Largest sublayer that the rank reads before a junction with a map: as it is read, and with its
  // in_proj folded. Ranks take turns.
  int64_t read = 0;
  int64_t half_folded = 0;
  for (int64_t t = shard.rank; t < job.widths.mapped_count - 1; t += job.resources.ranks) {
    read = std::max(read, sublayer_parameters(config, t, s.d, s.d, /*folded=*/false));
    half_folded = std::max(half_folded, s.half_folded(t));
  }
  // GPU ranks upload the sublayer of their next turn all the while.
  const int64_t ahead = s.on_gpu ? s.fold_bytes * read : 0;
  const int64_t map = s.fold_bytes * s.d * s.k;
  const int64_t folding = s.fold_bytes * (2 * s.d * s.k + read + half_folded);
  // A rank sends what it has folded, unless it computes in another dtype.
  const int64_t sent = s.folded_sublayer * 2 / 3 + s.dense_sublayer / 3;
  const int64_t converting = s.compute_bytes == s.fold_bytes ? 0 : s.fold_bytes * sent;
  const int64_t forward =
      s.compute_bytes * sent + std::max(converting, s.microbatch_stream + s.insides());
  const int64_t sublayer = s.described_beside() + map + std::max(folding, forward);
  return std::max(
      {s.share_stream + ahead + std::max(s.junction(), sublayer), s.aligning(), s.folding()});
}

int64_t RankMemory::evaluation() const {
  if (!job.evaluation && !job.target.allocation && !job.heals()) return 0;
  const RankSizes s(*this);
  const int64_t sublayers = s.on_gpu ? 2 : 1;  // the next one is uploaded
  const int64_t sublayer = std::max(s.dense_sublayer, s.folded_sublayer) * s.compute_bytes;
  const int64_t forward = sublayers * sublayer + s.microbatch_stream + s.insides();
  const int64_t head = kEvaluatedVocabularyRows * (s.d * s.compute_bytes + 3 * s.tokens * kFloat);
  const int64_t alone = s.share_stream + std::max(forward, head);
  if (!job.compares_predictions() && !job.target.allocation) return alone;
  // Comparison of predictions: states before both heads, blocks of both heads, logits of both and
  // their exponentials, and what is compared in float64.
  const int64_t states = std::max(s.share_stream, 2 * s.share_stream / kFloat * s.compute_bytes);
  const int64_t rows = 2 * s.d * s.compute_bytes + 4 * s.tokens * kFloat;
  return std::max(alone, states + kComparedVocabularyRows * (rows + 4 * kComparedTokens * kDouble));
}

int64_t RankMemory::layer_healing() const {
  // Float16 products have no gradient of their weights, so the layer is trained in float32.
  const RankMemory trained{config, job, shard, device,
                           compute == Dtype::kFloat16 ? Dtype::kFloat32 : compute};
  const RankSizes s(trained);
  const int64_t windows = job.healing->samples.value_or(expected_samples(job));
  const int64_t samples = microbatch_samples(s.seqlen);
  // Fitted and held-out windows have microbatches of their own: one more.
  const int64_t microbatches = (windows + samples - 1) / samples + 1;
  // Streams of the dense model and of the output, and the targets.
  const int64_t streams =
      3 * ((microbatches + job.resources.ranks - 1) / job.resources.ranks) * s.microbatch_stream;
  const int64_t batch = microbatches_per_step(fitted_microbatches(windows, s.seqlen));
  const int64_t gradients = (batch + job.resources.ranks - 1) / job.resources.ranks;
  ModelConfig output = config;
  output.dtypes = job.output.dtypes;
  int64_t layer = 0;
  int64_t stored = 0;
  int64_t graph = 0;
  for (int64_t l = 0; l < config.num_layers(); ++l) {
    TensorsSize size;
    int64_t kept = 0;
    for (const int64_t sublayer : {2 * l, 2 * l + 1}) {
      size = size + sublayer_size(output, sublayer, s.d, s.d, /*folded=*/false);
      kept += s.tokens * s.graph_bytes(sublayer);
    }
    layer = std::max(layer, size.parameters);
    stored = std::max(stored, size.bytes);
    graph = std::max(graph, kept);
  }
  // Stored: the layer as it was folded, the best one so far and the one that is tried. In the
  // compute dtype: the weights, also on trial, and gradients. In float32: the slice of the rank.
  const int64_t weights = 3 * stored + layer * (2 + gradients) * s.compute_bytes +
                          3 * kFloat * layer / job.resources.ranks;
  const int64_t summing = 2 * kDouble * s.dense_sublayer / 2;  // for one tensor
  return streams + weights + std::max(graph + 3 * s.insides() + s.microbatch_stream, summing);
}

/// Stage of the output with its updates, their gradients and moments, and the way back through it.
/// The last stage has both heads, and the logits of both models.
int64_t RankMemory::healing() const {
  if (!job.heals()) return 0;
  const RankSizes s(*this);
  int64_t weights = 0;
  int64_t updates = 0;
  int64_t graph = 0;
  for (int64_t sublayer = shard.first_sublayer; sublayer < shard.end_sublayer; ++sublayer) {
    weights += sublayer_parameters(config, sublayer, s.d, s.d, /*folded=*/false);
    updates += update_parameters(config, sublayer);
    graph = std::max(graph, s.tokens * s.graph_bytes(sublayer));
  }
  const int64_t rows = std::min(kGradientVocabularyRows, config.vocab_size);
  const int64_t heads =
      s.has_head ? 2 * config.vocab_size * s.d * s.compute_bytes + 2 * s.tokens * rows * kFloat : 0;
  const int64_t whole = weights * s.compute_bytes + 4 * kFloat * updates + heads + s.microbatch() +
                        graph + s.way_back();
  return std::max(whole, layer_healing());
}

int64_t RankMemory::sublayer_cut() const {
  const RankSizes s(*this);
  const int64_t n = s.cut_at_once;
  if (!job.mlp || (n == 0 && job.schedule.pipelined)) return 0;
  if (job.schedule.pipelined) {
    const int64_t pass =
        s.stage_weights(shard.end_sublayer) + s.microbatch() + s.at_features() + s.backward();
    const int64_t gradients =
        count_cut_sublayers(job, shard.first_sublayer, shard.end_sublayer) * s.gram_sum(s.d);
    const int64_t left = s.feature_sums(s.packed ? 1 : n);  // the others are on the host
    // Sums of one group are kept while the next one is summed. A GPU's are kept on the host.
    const int64_t kept = s.on_gpu ? 0 : s.kept_sums();
    const int64_t before = s.on_gpu ? 0 : std::max<int64_t>(0, kept - s.feature_sums(n));
    return std::max({before + s.feature_sums(n) + pass, kept + left + s.removing(),
                     job.target.allocation ? gradients + pass : 0});
  }
  const int64_t reduced = job.resources.ranks > 1 ? kDouble * s.features * s.features : 0;
  const int64_t pass = s.microbatch_stream + s.insides() + s.at_features();
  const int64_t sublayers = s.on_gpu ? 2 : 1;
  return s.share_stream + sublayers * s.dense_sublayer * s.compute_bytes + s.feature_sums(1) +
         std::max({pass, reduced, s.removing()});
}

int64_t RankMemory::host_beside_gpu() const {
  const RankSizes s(*this);
  const int64_t n = s.junctions;
  // Without a second pass one junction waits while another is solved.
  const int64_t waiting =
      s.pca ? (s.second_pass ? n : std::min<int64_t>(n, 2)) * (s.square + s.metric) : 0;
  // Weights are there three times: as read, in pinned memory, and one more copy.
  const int64_t read = s.dense_sublayer * std::max(s.fold_bytes, s.compute_bytes);
  // Packed sums of features wait on the host.
  const int64_t summed = s.packed ? s.feature_sums(s.cut_at_once) : 0;
  const bool for_a_cut = job.mlp && !job.mlp->allocated;
  const int64_t copied = for_a_cut ? kDouble * s.features * s.features : 0;
  return std::max({waiting, s.kept_sums(), summed + copied}) + 3 * read;
}

int64_t RankMemory::libraries() const {
  return device == DeviceKind::kCuda ? kDeviceLibraries : kHostLibraries;
}

namespace {

/// Peak of a job: the dense model is evaluated and its MLPs are cut; then comes the schedule.
int64_t peak_of(const RankMemory& dense) {
  const ModelConfig cut = with_cut_mlps(dense.config, dense.job.mlp);
  const RankMemory rank{cut, dense.job, dense.shard, dense.device, dense.compute};
  // The host keeps the sums of a GPU until they are cut.
  const int64_t kept = dense.device == DeviceKind::kCuda ? 0 : RankSizes(dense).kept_sums();
  return std::max({dense.job.schedule.memory(rank), kept + dense.evaluation(), dense.sublayer_cut(),
                   dense.healing()}) +
         dense.libraries();
}

}  // namespace

bool cut_fits(const ModelConfig& config, const ResolvedJob& job, const RankShard& shard) {
  const auto fits = [&](DeviceKind device, Dtype compute, const std::optional<int64_t>& budget) {
    const RankMemory rank{config, job, shard, device, compute};
    return within_budget(rank.sublayer_cut() + rank.libraries(), budget);
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

}  // namespace dotresize
