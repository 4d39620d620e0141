#include <algorithm>
#include <cmath>

#include "job/model/model_size.h"
#include "job/plan/estimate/job_time.h"
#include "job/plan/healing.h"
#include "job/plan/net_size.h"
#include "job/plan/steps/step.h"

namespace dotresize {
namespace {

/// Bytes that are moved per element of a gradient. It is rounded and added in float64. Then moments
/// and parameter are read and written in float32.
constexpr double kLayerStepBytes = 80.0;
/// Forward pass and way back of a layer whose weights have gradients, in forward passes.
constexpr double kLayerForwardAndBack = 3.0;

/// Bytes that are moved per parameter of an update in a step. Its gradient is added, and moments
/// and value are read and written in float32.
constexpr double kStepBytes = 48.0;
/// Cost of the head in forward passes: the logits of both models twice, and a product with their
/// difference.
constexpr double kHeadPasses = 5.0;

int64_t healing_windows(const ResolvedJob& job) {
  return job.healing->samples.value_or(expected_samples(job));
}

/// Distils a layer, with the streams of both models.
int64_t layer_memory(const RankSizes& r) {
  const int64_t ranks = r.job.resources.ranks;
  const int64_t windows = healing_windows(r.job);
  const int64_t samples = microbatch_samples(r.seqlen);
  // Fitted and held-out windows have microbatches of their own: one more.
  const int64_t microbatches = (windows + samples - 1) / samples + 1;
  // Streams of the dense model and of the output, and the targets.
  const int64_t streams = 3 * ((microbatches + ranks - 1) / ranks) * r.microbatch_stream;
  const int64_t batch = microbatches_per_step(fitted_microbatches(windows, r.seqlen));
  const int64_t gradients = (batch + ranks - 1) / ranks;
  ModelConfig output = r.config;
  output.files.dtypes = r.job.output.dtypes;
  int64_t layer = 0;
  int64_t stored = 0;
  int64_t graph = 0;
  for (int64_t l = 0; l < r.config.num_layers(); ++l) {
    TensorsSize size;
    int64_t kept = 0;
    for (const int64_t sublayer : {2 * l, 2 * l + 1}) {
      size = size + sublayer_size(output, sublayer, r.d, r.d, /*folded=*/false);
      kept += r.tokens * r.graph_bytes(sublayer);
    }
    layer = std::max(layer, size.parameters);
    stored = std::max(stored, size.bytes);
    graph = std::max(graph, kept);
  }
  // Stored: the layer as it was folded, the best one so far and the one that is tried. In the
  // compute dtype: the weights, also on trial, and gradients. In float32: the slice of the rank.
  const int64_t weights =
      3 * stored + layer * (2 + gradients) * r.compute_bytes + 3 * kFloat * layer / ranks;
  const int64_t summing = 2 * kDouble * r.dense_sublayer / 2;  // for one tensor
  return streams + weights + std::max(graph + 3 * r.insides() + r.microbatch_stream, summing);
}

/// Stage of the output with its updates, their gradients and moments, and the way back through it.
/// The last stage has both heads, and the logits of both models.
int64_t updates_memory(const RankSizes& r) {
  int64_t weights = 0;
  int64_t updates = 0;
  int64_t graph = 0;
  for_each_sublayer(r.shard, [&](int64_t s) {
    weights += r.dense_parameters(s);
    updates += update_parameters(r.config, s);
    graph = std::max(graph, r.tokens * r.graph_bytes(s));
  });
  const int64_t rows = std::min(kGradientVocabularyRows, r.config.vocab_size);
  const int64_t heads =
      r.has_head ? 2 * r.config.vocab_size * r.d * r.compute_bytes + 2 * r.tokens * rows * kFloat
                 : 0;
  return weights * r.compute_bytes + 4 * kFloat * updates + heads + r.microbatch() + graph +
         r.way_back();
}

int64_t healing_memory(const RankSizes& r) {
  // Float16 products have no gradient of their weights, so a layer is trained in float32.
  RankOnDevice trained = r;
  if (trained.compute == Dtype::kFloat16) trained.compute = Dtype::kFloat32;
  return std::max({evaluation_memory(r), updates_memory(r), layer_memory(RankSizes(trained))});
}

/// Windows that the ranks deal out among each other, in whole microbatches.
struct DealtWindows {
  DealtWindows(const JobTime& t, int64_t windows) {
    const double all = number(windows * t.seqlen);
    const double microbatches = std::max(1.0, std::ceil(all / t.microbatch_tokens));
    const double turns = std::ceil(microbatches / t.ranks);
    tokens = all * turns / microbatches;
    working = microbatches / turns;
  }

  double tokens = 0.0;   ///< tokens of the busiest rank
  double working = 1.0;  ///< number of ranks that are as busy
};

/// Heals one layer after the other. All tokens go through it in both models. Then come its steps,
/// whose microbatches are spread over the ranks.
PhaseTimes layers_time(const JobTime& t, const ModelConfig& output) {
  const Healing& healing = *t.job.healing;
  const int64_t windows = healing_windows(t.job);
  const int64_t microbatches = fitted_microbatches(windows, t.seqlen);
  const double steps = number(healing.epochs * layer_steps_per_epoch(microbatches));
  const int64_t at_once = microbatches_per_step(microbatches);
  const double turns = std::ceil(number(at_once) / t.ranks);  // per step, on the busiest rank
  const double trained = steps * turns * t.microbatch_tokens;
  const DealtWindows fitted(t, fitted_windows(windows));
  const DealtWindows held_out(t, windows - fitted_windows(windows));
  // Float16 products have no gradient of their weights, so these layers are healed in float32.
  const bool half = t.job.resources.compute_dtype == Dtype::kFloat16;
  const Dtype compute = half ? Dtype::kFloat32 : t.job.resources.compute_dtype;
  const double bytes = number(size_in_bytes(compute));
  const auto forward_of = [&](const ModelConfig& model, int64_t sublayer, double tokens) {
    const ForwardCounts counts =
        forward_counts(model, sublayer, widths_of(model, sublayer), tokens, t.seqlen, compute);
    return t.forward(counts) +
           (half ? counts.gemm / t.rates.float32_gemm - counts.gemm / t.rates.compute_gemm : 0.0);
  };
  const auto add = [&](const char* phase, double seconds, double working, PhaseTimes& times) {
    PhaseTimes work;
    work.add(phase, seconds);
    times.add(t.in_turn(work, working));
  };
  PhaseTimes times;
  for (int64_t s = 0; s < output.num_sublayers(); ++s) {
    for (const auto& [tokens, working] : {fitted, held_out}) {
      add("forward", forward_of(t.config, s, tokens) + forward_of(output, s, tokens), working,
          times);
    }
    add(kHeal, kLayerForwardAndBack * forward_of(output, s, trained),
        std::min<double>(number(at_once), t.ranks), times);
    add(kHeal, number(healing.epochs + 1) * forward_of(output, s, held_out.tokens),
        held_out.working, times);
    const SublayerWidths widths = widths_of(output, s);
    const TensorsSize size = sublayer_size(output, s, widths.in, widths.out, /*folded=*/false);
    const auto parameters = number(size.parameters);
    times.add(kHeal, steps * parameters * kLayerStepBytes / t.ranks / t.rates.memory);
    times.add("communicate", steps * t.collective(parameters * (8.0 + bytes)));
    times.add(kHeal, t.put(number(size.bytes)) / t.ranks);
  }
  return times;
}

/// Computes the dense model's final states, then runs the stages of the output forward and back.
/// The few microbatches of a step fill the pipeline only in part. On CPUs the busy ranks have the
/// cores of the others.
PhaseTimes updates_time(const JobTime& t, const ModelConfig& output) {
  const Healing& healing = *t.job.healing;
  const int64_t windows = healing_windows(t.job);
  const int64_t fitted = fitted_windows(windows);
  const double epochs = number(healing.epochs);
  const double step_tokens = number(windows_per_step(fitted, t.seqlen) * t.seqlen);
  const double at_once = std::max(1.0, step_tokens / t.microbatch_tokens);
  const double filling = (at_once + t.ranks - 1.0) / at_once /
                         std::min(t.rates.alone, std::max(1.0, t.ranks / at_once));
  const double trained = epochs * number(fitted * t.seqlen);
  const double held_out =
      (epochs + 1.0 + number(kLessUpdates.size())) * number((windows - fitted) * t.seqlen);
  const double steps = epochs * number(steps_per_epoch(fitted, t.seqlen));
  const DealtWindows dense(t, windows);
  PhaseTimes states;
  for (int64_t s = 0; s < t.config.num_sublayers(); ++s) {
    states.add(kHeal, t.forward(t.config, s, dense.tokens));
  }
  PhaseTimes times = t.in_turn(states, dense.working);
  times.add(t.side_by_side([&](const RankShard& shard) {
    PhaseTimes stage;
    double updates = 0.0;
    double evaluated = 0.0;
    for_each_sublayer(shard, [&](int64_t s) {
      stage.add(kHeal, t.forward(output, s, trained));
      stage.add("backward", backward_seconds(t, output, s, trained, runs_again(t, shard, s)));
      evaluated += t.forward(output, s, held_out);
      updates += number(update_parameters(output, s));
    });
    if (t.last(shard)) {
      stage.add("backward", kHeadPasses * t.head(output, output.head_width(), trained));
      evaluated += 2.0 * t.head(output, output.head_width(), held_out);
    }
    stage.add("wait", (filling - 1.0) * stage.total());
    stage.add(kHeal, evaluated + steps * updates * kStepBytes / t.rates.memory);
    stage.add(kHeal, epochs * t.put(3.0 * 4.0 * updates));
    return stage;
  }));
  return times;
}

PhaseTimes healing_time(const JobTime& t) {
  const ModelConfig output = output_model_config(t.config, t.job, t.job.widths);
  PhaseTimes times = layers_time(t, output);
  times.add(updates_time(t, output));
  return times;
}

/// Tokens, once for each layer that they pass.
int64_t healed_tokens(const JobParts& parts, const FoundTokens& found) {
  const Healing& healing = *parts.job.healing;
  const int64_t windows = found.healing_windows;
  return parts.config.num_layers() * (counted_healing_tokens(healing, windows, found.seqlen) +
                                      healing.epochs * fitted_windows(windows) * found.seqlen);
}

}  // namespace

constinit const Step kHealStep = {.phase = kHeal,
                                  .runs = [](const ResolvedJob& job) { return job.heals(); },
                                  .memory = healing_memory,
                                  .time = healing_time,
                                  .tokens = healed_tokens};

}  // namespace dotresize
