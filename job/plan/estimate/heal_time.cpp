#include <algorithm>
#include <cmath>

#include "job/plan/estimate/job_time.h"
#include "job/plan/healing.h"

namespace dotresize {
namespace {

/// Bytes that are moved per element of a gradient. It is rounded and added in float64. Then moments
/// and parameter are read and written in float32.
constexpr double kLayerStepBytes = 80.0;
/// Forward pass and way back, in forward passes.
constexpr double kLayerForwardAndBack = 1.0 + static_cast<double>(kBackwardPasses);

/// Bytes that are moved per parameter of an update in a step. Its gradient is added, and moments
/// and value are read and written in float32.
constexpr double kStepBytes = 48.0;
/// Cost of the head in forward passes: the logits of both models twice, and a product with their
/// difference.
constexpr double kHeadPasses = 5.0;

}  // namespace

/// Heals one layer after the other. All tokens go through it in both models. Then come its steps,
/// whose microbatches are spread over the ranks.
PhaseTimes JobTime::heal_layers(const ModelConfig& output) const {
  const Healing& healing = *job_.healing;
  const int64_t windows = healing.samples.value_or(expected_samples(job_));
  const int64_t microbatches = fitted_microbatches(windows, seqlen_);
  const double steps = number(healing.epochs * layer_steps_per_epoch(microbatches));
  const int64_t at_once = microbatches_per_step(microbatches);
  const double turns = std::ceil(number(at_once) / ranks_);  // per step, on the busiest rank
  const double trained =
      steps * turns * microbatch_tokens_ * share_of(std::min<double>(number(at_once), ranks_));
  const double share = number(windows * seqlen_) / ranks_ / rates_.alone;
  const double held_out = number((windows - fitted_windows(windows)) * seqlen_) / ranks_;
  // Float16 products have no gradient of their weights, so these layers are healed in float32.
  const bool half = job_.resources.compute_dtype == Dtype::kFloat16;
  const Dtype compute = half ? Dtype::kFloat32 : job_.resources.compute_dtype;
  const double bytes = number(size_in_bytes(compute));
  const auto forward_of = [&](const ModelConfig& model, int64_t sublayer, double tokens) {
    const ForwardCounts counts =
        forward_counts(model, sublayer, widths_of(model, sublayer), tokens, seqlen_, compute);
    return forward(counts) +
           (half ? counts.gemm / rates_.float32_gemm - counts.gemm / rates_.compute_gemm : 0.0);
  };
  PhaseTimes times;
  for (int64_t s = 0; s < output.num_sublayers(); ++s) {
    const SublayerWidths widths = widths_of(output, s);
    times.add("heal", forward_of(config_, s, share) + forward_of(output, s, share) +
                          kLayerForwardAndBack * forward_of(output, s, trained) +
                          number(healing.epochs + 1) * forward_of(output, s, held_out));
    const TensorsSize size = sublayer_size(output, s, widths.in, widths.out, /*folded=*/false);
    const auto parameters = number(size.parameters);
    times.add("heal", steps * parameters * kLayerStepBytes / ranks_ / rates_.memory);
    times.add("heal", steps * collective(parameters * (8.0 + bytes)));
    times.add("heal", put(number(size.bytes)) / ranks_);
  }
  return times;
}

/// Computes the dense model's final states, then runs the stages of the output forward and back.
/// The few microbatches of a step fill the pipeline only in part. On CPUs the busy ranks have the
/// cores of the others.
PhaseTimes JobTime::heal_updates(const ModelConfig& output) const {
  const Healing& healing = *job_.healing;
  const int64_t windows = healing.samples.value_or(expected_samples(job_));
  const int64_t fitted = fitted_windows(windows);
  const double epochs = number(healing.epochs);
  const double step_tokens = number(windows_per_step(fitted, seqlen_) * seqlen_);
  const double at_once = std::max(1.0, step_tokens / microbatch_tokens_);
  const double filling =
      (at_once + ranks_ - 1.0) / (rates_.cuda ? at_once : std::max(at_once, ranks_));
  const double trained = epochs * number(fitted * seqlen_);
  const double held_out =
      (epochs + 1.0 + number(kLessUpdates.size())) * number((windows - fitted) * seqlen_);
  const double steps = epochs * number(steps_per_epoch(fitted, seqlen_));
  const auto forward_of = [&](const ModelConfig& model, int64_t sublayer, double tokens) {
    return forward(model, sublayer, widths_of(model, sublayer), tokens);
  };
  PhaseTimes times;
  const double share = number(windows * seqlen_) / ranks_ / rates_.alone;
  for (int64_t s = 0; s < config_.num_sublayers(); ++s) {
    times.add("heal", forward_of(config_, s, share));
  }
  times.add(side_by_side(of_ranks([&](const RankShard& shard) {
    PhaseTimes stage;
    double updates = 0.0;
    for (int64_t s = shard.first_sublayer; s < shard.end_sublayer; ++s) {
      stage.add("heal",
                (2.0 + number(runs_again(shard, s))) * filling * forward_of(output, s, trained) +
                    forward_of(output, s, held_out));
      updates += number(update_parameters(output, s));
    }
    if (last(shard)) {
      const auto head = [&](double tokens) {
        return forward(
            head_counts(output, output.head_width(), tokens, job_.resources.compute_dtype));
      };
      stage.add("heal", kHeadPasses * filling * head(trained) + 2.0 * head(held_out));
    }
    stage.add("heal", steps * updates * kStepBytes / rates_.memory);
    stage.add("heal", epochs * put(3.0 * 4.0 * updates));
    return stage;
  })));
  return times;
}

}  // namespace dotresize
