// Cuts MLPs (`method.mlp`, `method.allocate`) and attentions (`method.allocate`). f: features, of
// which l are left. Features of MLPs are removed in blocks: 6 m² each, where m counts those that
// are present (between f and l) and up to a seventh more that have been removed; in total
// 2.3 (f³ − l³), half of which a CPU saves (worker/maps/removal/feature_removal.cpp). Each removal
// reads about 100 m numbers. Channels of attentions are removed one after the other, `heads`
// features at a time. An allocation computes its curves like that, down to the fewest parts that it
// may keep. Its trial cuts in the order of the curves. Its output has more windows, and so a
// removal of its own.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "job/model/model_size.h"
#include "job/plan/allocate/choices.h"
#include "job/plan/allocate/inner_widths.h"
#include "job/plan/estimate/job_time.h"
#include "job/plan/healing.h"
#include "job/plan/steps/step.h"

namespace dotresize {
namespace {

/// Largest number of features that are summed: those of an MLP, of an expert, or the values that o
/// reads.
int64_t most_features(const RankSizes& r) {
  int64_t most = 0;
  for (const LayerSpec& layer : r.config.layers) {
    most = std::max({most, layer.mlp.intermediate_size, shared_features(layer.mlp)});
    if (r.job.cuts_attentions()) most = std::max(most, attention_features(layer.attention));
  }
  return most;
}

/// Bytes for the sums of the `at_once` neighbouring sublayers that need most: an MLP, all experts
/// of a mixture, or an attention, and the gradients behind it.
int64_t feature_sums(const RankSizes& r, int64_t at_once) {
  // Ranks that share the tokens meet the MLPs of all ranks.
  const bool stage = r.job.schedule.pipelined;
  const int64_t end = stage ? r.shard.end_sublayer : r.config.num_sublayers();
  std::vector<int64_t> sums;
  for (int64_t s = stage ? r.shard.first_sublayer : 0; s < end; ++s) {
    if (!may_be_cut(r.job, s)) continue;
    sums.push_back(r.gradients ? r.gram_sum(r.d) : 0);
    if (is_attention(s)) sums.back() += r.gram_sum(attention_features(r.config.attention(s)));
    for (const int64_t width : features_of_mlps(r.config, s)) sums.back() += r.gram_sum(width);
  }
  const auto together = std::min<int64_t>(at_once, std::ssize(sums));
  int64_t most = 0;
  for (auto first = sums.begin(); sums.end() - first >= together && together > 0; ++first) {
    most = std::max(most, std::accumulate(first, first + together, int64_t{0}));
  }
  return most;
}

int64_t cut_sublayers_of(const RankSizes& r) {
  return count_cut_sublayers(r.job, r.shard.first_sublayer, r.shard.end_sublayer);
}

/// Bytes at the features of a microbatch: the features in float32, on the CPU a block in float64,
/// and products of some rows.
int64_t at_features(const RankSizes& r) {
  const int64_t f = most_features(r);
  const int64_t block = r.on_gpu ? 0 : kDouble * f * std::min(kGramBlockTokens, r.tokens);
  return r.tokens * f * kFloat + block + 2 * kDouble * f * std::clamp<int64_t>(f / 8, 64, 1024);
}

/// Bytes to remove features, beside the sums, one of which is the Gram matrix. First its factor and
/// inverse. Then the inverse, the products of down, and what is left of both while features leave.
/// For a cut: the columns that are left, their rows and the factor, and the journal entry. A packed
/// matrix is unpacked into another one. If features are removed for a cut alone, the Gram matrix
/// stays, on the host.
int64_t removing(const RankSizes& r) {
  const int64_t f = most_features(r);
  const bool beside = r.packed || (!r.job.mlp->allocated && !r.on_gpu);
  const int64_t matrices = beside ? 3 : 2;
  const int64_t of_metric = r.gradients ? 3 * r.square : 0;
  return kDouble * std::max(matrices * f * f + 2 * r.d * f, 6 * r.d * f) + of_metric;
}

int64_t cut_memory(const RankSizes& r) {
  const int64_t n = std::min(r.shard.cuts_at_once, cut_sublayers_of(r));
  if (r.job.schedule.pipelined) {
    if (n == 0) return 0;
    const int64_t pass =
        r.stage_weights(r.shard.end_sublayer) + r.microbatch() + at_features(r) + r.backward();
    const int64_t gradients = cut_sublayers_of(r) * r.gram_sum(r.d);
    const int64_t left = feature_sums(r, r.packed ? 1 : n);  // the others are on the host
    // Sums of one group are kept while the next one is summed. A GPU's are kept on the host.
    const int64_t kept = r.on_gpu ? 0 : kept_feature_sums(r);
    const int64_t before = r.on_gpu ? 0 : std::max<int64_t>(0, kept - feature_sums(r, n));
    return std::max({before + feature_sums(r, n) + pass, kept + left + removing(r),
                     r.job.target.allocation ? gradients + pass : 0});
  }
  const int64_t f = most_features(r);
  const int64_t reduced = r.job.resources.ranks > 1 ? kDouble * f * f : 0;
  const int64_t pass = r.microbatch_stream + r.insides() + at_features(r);
  const int64_t sublayers = r.on_gpu ? 2 : 1;
  return r.share_stream + sublayers * r.dense_sublayer * r.compute_bytes + feature_sums(r, 1) +
         std::max({pass, reduced, removing(r)});
}

/// Packed sums of features wait on the host.
int64_t cut_host_memory(const RankSizes& r) {
  const int64_t n = std::min(r.shard.cuts_at_once, cut_sublayers_of(r));
  const int64_t f = most_features(r);
  const int64_t summed = r.packed ? feature_sums(r, n) : 0;
  const int64_t copied = r.job.mlp->allocated ? 0 : kDouble * f * f;
  return std::max(kept_feature_sums(r), summed + copied);
}

/// Work for one sublayer that is cut; all 0 if it is not cut.
struct CutCounts {
  double gram = 0.0;         ///< operations per token of one round: float64, on a GPU float32
  double width = 0.0;        ///< width of a Gram matrix as large as all of them
  CutOperations operations;  ///< float64
  double updates = 0.0;      ///< part of them that subtracts blocks of removals from whole matrices
  double bytes = 0.0;        ///< bytes that the removals read, one after the other
  double steps = 0.0;        ///< removals, each of which waits for the one before
  double journal = 0.0;      ///< bytes that the journal keeps
};

/// Number of cuts of an allocation: for its trial, and for the output.
constexpr double kCutsOfAllocation = 2.0;

/// True if a curve is computed, and not read from statistics.
bool makes_curves(const ResolvedJob& job) {
  return job.target.allocation && !job.statistics.used();
}

CutCounts attention_cut_counts(const ModelConfig& config, const ResolvedJob& job,
                               int64_t sublayer) {
  CutCounts counts;
  if (!job.cuts_attentions()) return counts;
  const AttentionSpec& attention = config.attention(sublayer);
  const double d = number(config.hidden_size);
  const double f = number(attention_features(attention));
  const double dim = number(attention.head_dim);
  // All cuts of an allocation together remove about the share that the size asks for, because the
  // widths are not known.
  const double cut_share = kCutsOfAllocation * (1.0 - job.target.allocation->size);
  const double of_curve =
      dim - number(main_unit(sublayer).sizes(config.layers[layer_of(sublayer)], 1).back());
  const double of_cut = of_curve * (1.0 - job.target.allocation->size);
  const auto removal = [&](double channels) {
    return f * f * f + 4.0 * f * f * dim +
           2.0 * f * (f + d) * channels * number(attention.num_heads);
  };
  const double steps = (makes_curves(job) ? of_curve : 0.0) + kCutsOfAllocation * of_cut;
  counts.gram = gram_operations(f);
  counts.width = f;
  counts.operations = {makes_curves(job) ? removal(of_curve) : 0.0, removal(of_cut),
                       removal(of_cut)};
  counts.bytes = steps * 8.0 * 3.0 * f * (f + d);
  counts.steps = steps;
  const double values = number(attention.num_kv_heads * attention.head_dim);
  const double rows = attention.fused ? f + 2.0 * values : values;
  counts.journal = (kCutsOfAllocation - cut_share) * (rows + f) * d *
                   (folds_in_float64(job.output.dtypes.main) ? 8.0 : 4.0);
  return counts;
}

/// Fewest features that an allocation may leave.
double fewest_features(const ModelConfig& config, const ResolvedJob& job, int64_t sublayer) {
  int64_t fewest = mlp_width(config, sublayer);
  for (const auto& [unit, size] : choices(config, job, sublayer)) {
    if (unit == &kFeatures) fewest = std::min(fewest, size);
  }
  return number(fewest);
}

CutCounts cut_counts(const ModelConfig& config, const ResolvedJob& job, int64_t sublayer) {
  if (is_attention(sublayer)) return attention_cut_counts(config, job, sublayer);
  CutCounts counts;
  const double d = number(config.hidden_size);
  const double features = number(mlp_width(config, sublayer));
  if (features == 0.0) return counts;
  const double shared = number(shared_features(config.mlp(sublayer)));
  const double cuts = job.target.allocation ? kCutsOfAllocation : 1.0;
  const bool mixture = config.is_mixture(sublayer);
  const double left = job.target.allocation
                          ? features * job.target.allocation->size
                          : number(mixture ? job.mlp->expert_width : job.mlp->width);
  const double least = job.target.allocation ? fewest_features(config, job, sublayer) : left;
  counts.gram = gram_operations(features) * number(active_mlps(config, sublayer));
  if (shared > 0.0) counts.gram += gram_operations(shared);
  double squares = 0.0;
  double all_left = 0.0;
  const auto add = [&](double mlps, double f) {
    const double l = left * f / features;
    const double end = least * f / features;
    const auto add_removal = [&](double to, double& operations) {
      const double updates = mlps * 2.3 * (f * f * f - to * to * to);
      operations += mlps * (f * f * f + 2.0 * d * f * f + 2.0 * d * d * f) + updates;
      counts.updates += updates;
      counts.steps += mlps * (f - to);
      counts.bytes += mlps * (f - to) * 8.0 * 100.0 * (f + to) / 2.0;
    };
    if (makes_curves(job)) add_removal(end, counts.operations.curve);
    add_removal(l, counts.operations.output);
    const double fit = mlps * (l * l * l / 3.0 + 2.0 * d * f * l + 2.0 * d * l * l);
    if (job.target.allocation) counts.operations.trial += fit;
    counts.operations.output += fit;
    squares += mlps * f * f;
    all_left += mlps * l;
  };
  add(number(mlp_count(config, sublayer)), features);
  if (shared > 0.0) add(1.0, shared);
  counts.width = std::sqrt(squares);
  const int64_t width = config.hidden_size;
  const TensorsSize stored = sublayer_size(config, sublayer, width, width, /*folded=*/false);
  // Gate and up stay as they are stored.
  counts.journal = cuts * all_left * d *
                   (2.0 * number(stored.bytes) / number(stored.parameters) +
                    (folds_in_float64(job.output.dtypes.main) ? 8.0 : 4.0));
  return counts;
}

void add_cut_work(JobWork& work) {
  for (std::size_t s = 0; s < work.operations.size(); ++s) {
    const CutCounts counts = cut_counts(work.config, work.job, static_cast<int64_t>(s));
    work.operations[s] += work.tokens * counts.gram;
    work.operations[s] += counts.operations.all();
  }
}

void add_cut_traffic(const JobParts& parts, Traffic& traffic) {
  const auto& [config, job, plan] = parts;
  const int64_t others = job.resources.ranks - 1;
  traffic.read_bytes += 2 * stored_bytes(config);
  if (job.target.allocation) {
    traffic.read_bytes += read_statistics_bytes(config, job);
    traffic.statistics_bytes += saved_statistics_bytes(config, job);
    if (!job.statistics.given()) traffic.journal_bytes += curve_bytes(config, job);
  }
  int64_t features = 0;
  for (int64_t s = 0; s < config.num_sublayers(); ++s) {
    features += feature_sums_bytes(config, s);
    traffic.journal_bytes += static_cast<int64_t>(cut_counts(config, job, s).journal);
  }
  if (job.schedule.pipelined) {
    traffic.sent_bytes += others * expected_tokens(job, config) * config.hidden_size * kFloat *
                          (plan.cut_passes + plan.cut_passes_back);
  } else {
    traffic.sent_bytes += sent_weights(parts) + others * features;
  }
}

/// Passes for the features of the rank's sublayers.
PhaseTimes stream_features(const JobTime& t, const RankShard& shard) {
  // An allocation fits to the windows that it does not hold out.
  const double held_out = t.job.target.allocation ? held_out_share(t.job) : 0.0;
  const auto of_windows = [&](int64_t of_fitted, int64_t of_held_out) {
    return number(of_fitted) * (1.0 - held_out) + number(of_held_out) * held_out;
  };
  const double passes = of_windows(t.plan.cut_passes, t.plan.held_out_passes);
  const double rounds = of_windows(t.plan.cut_rounds, 1);
  const double back = of_windows(t.plan.cut_passes_back, t.plan.held_out_passes_back);
  PhaseTimes stage;
  for_each_sublayer(shard, [&](int64_t s) {
    const CutCounts counts = cut_counts(t.config, t.job, s);
    stage.add("forward", passes * t.forward(t.config, s, t.tokens));
    stage.add("gram", rounds * t.gram(t.tokens, counts.gram, counts.width));
    if (t.job.gradients() && !t.job.statistics.used() && may_be_cut(t.job, s)) {
      stage.add("gram", t.gram(t.tokens, gram_operations(t.d), t.d));
    }
  });
  if (back > 0.0) add_backward(t, shard, back, stage);
  stage.add("communicate", (passes + back) * 4.0 * t.tokens * t.d / t.rates.link - stage.total());
  return stage;
}

PhaseTimes remove_features(const JobTime& t, int64_t sublayer) {
  const CutCounts counts = cut_counts(t.config, t.job, sublayer);
  PhaseTimes times;
  // A step is a few dozen small kernels, each of which has to be launched.
  constexpr double kStepOnGpu = 2e-4;
  const double operations = counts.operations.all() - (t.rates.cuda ? 0.0 : counts.updates / 2.0);
  times.add("cut", operations / t.rates.float64_gemm + counts.bytes / t.rates.memory +
                       (t.rates.cuda ? kStepOnGpu * counts.steps : 0.0));
  // GPU ranks write one cut while the next one is made.
  const double of_cuts = counts.operations.trial + counts.operations.output;
  const double meanwhile = t.rates.cuda ? of_cuts / t.rates.float64_gemm : 0.0;
  times.add("journal", t.put(counts.journal) - meanwhile);
  return times;
}

/// Streams all tokens through one sublayer after the other, and through MLPs twice: the bounds of
/// their sums are found first. One rank removes the features while the others wait.
PhaseTimes share_features(const JobTime& t) {
  const double share = t.share_of_tokens;
  const Dtype compute = t.job.resources.compute_dtype;
  PhaseTimes work;
  TensorsSize read;
  for (int64_t s = 0; s < t.config.num_sublayers(); ++s) {
    const CutCounts counts = cut_counts(t.config, t.job, s);
    const double times = is_attention(s) ? 1.0 : 2.0;
    work.add("forward", times * t.forward(t.config, s, share));
    work.add("gram", t.gram(share, counts.gram, counts.width));
    const TensorsSize sublayer = t.dense_sublayer_size(s);
    read = read + sublayer;
    work.add("communicate", t.collective(number(sublayer.parameters * size_in_bytes(compute) +
                                                feature_sums_bytes(t.config, s))));
    work.add(t.in_turn(remove_features(t, s)));
  }
  return t.read_in_turns(work, read, compute, t.config);
}

PhaseTimes cut_time(const JobTime& t) {
  if (!t.job.schedule.pipelined) return share_features(t);
  PhaseTimes times;
  times.add(load_stages(t), number(t.plan.cut_passes));
  times.add(t.streamed([&](const RankShard& shard) { return stream_features(t, shard); }));
  times.add(t.side_by_side([&](const RankShard& shard) {
    PhaseTimes cutting;
    for_each_sublayer(shard, [&](int64_t s) { cutting.add(remove_features(t, s)); });
    return cutting;
  }));
  return times;
}

/// A stage counts all tokens in each pass; ranks that share the tokens, their share in each
/// sublayer.
int64_t cut_tokens(const JobParts& parts, const FoundTokens& found) {
  const auto& [config, job, plan] = parts;
  if (!job.schedule.pipelined) {
    return found.calibration / job.resources.ranks * plan.cut_passes * config.num_sublayers();
  }
  return found.calibration * (plan.cut_passes + plan.cut_passes_back) +
         found.held_out * (plan.held_out_passes + plan.held_out_passes_back);
}

}  // namespace

CutOperations cut_operations(const ModelConfig& config, const ResolvedJob& job, int64_t sublayer) {
  return cut_counts(config, job, sublayer).operations;
}

int64_t kept_feature_sums(const RankSizes& rank) {
  return rank.shard.keeps_sums ? feature_sums(rank, rank.config.num_sublayers()) : 0;
}

/// The gradients behind each sublayer that may be cut, of fitted and of held-out windows.
int64_t curve_bytes(const ModelConfig& config, const ResolvedJob& job) {
  return 2 * count_cut_sublayers(job, 0, config.num_sublayers()) * kDouble * config.hidden_size *
         config.hidden_size;
}

double held_out_share(const ResolvedJob& job) {
  const int64_t windows = expected_samples(job);
  return number(windows - fitted_windows(windows)) / number(windows);
}

constinit const Step kCutStep = {
    .phase = kCalibrate,
    .runs = [](const ResolvedJob& job) { return job.mlp.has_value(); },
    .memory = cut_memory,
    .host_memory = cut_host_memory,
    .passes = [](const ResolvedJob& job) { return number(1 + passes_back(job)); },
    .work = add_cut_work,
    .traffic = add_cut_traffic,
    .time = cut_time,
    .tokens = cut_tokens};

}  // namespace dotresize
