#include <algorithm>
#include <cmath>

#include "job/plan/healing.h"
#include "job/plan/job_time.h"

namespace dotresize {
namespace {

/// Bytes that are moved for an element of a gradient: it is rounded and added in float64, then
/// moments and parameter are read and written in float32.
constexpr double kStepBytes = 80.0;
/// A pass forward and the way back, in passes forward.
constexpr double kForwardAndBack = 1.0 + static_cast<double>(kBackwardPasses);

}  // namespace

/// Each layer: all tokens through it in both models, then its steps, of which one microbatch each
/// goes to so many ranks.
PhaseTimes JobTime::heal(const ModelConfig& output) const {
  const Healing& healing = *job_.healing;
  const int64_t windows = healing.samples.value_or(expected_samples(job_));
  const int64_t microbatches = fitted_microbatches(windows, seqlen());
  const double steps = number(healing.epochs * steps_per_epoch(microbatches));
  const int64_t at_once = microbatches_per_step(microbatches);
  const double turns = std::ceil(number(at_once) / ranks());  // of a step, on the busiest rank
  const double trained =
      steps * turns * microbatch_tokens() * share_of(std::min<double>(number(at_once), ranks()));
  const double share = number(windows * seqlen()) / ranks() / rates_.alone;
  const double held_out = number((windows - fitted_windows(windows)) * seqlen()) / ranks();
  // Products of float16 have no gradient of their weights: these layers are healed in float32.
  const bool half = job_.compute_dtype == Dtype::kFloat16;
  const Dtype compute = half ? Dtype::kFloat32 : job_.compute_dtype;
  const double bytes = number(size_in_bytes(compute));
  const auto forward_of = [&](const ModelConfig& model, int64_t sublayer, double tokens) {
    const ForwardCounts counts =
        forward_counts(model, sublayer, widths_of(model, sublayer), tokens, seqlen(), compute);
    return forward(counts) +
           (half ? counts.gemm / rates_.float32_gemm - counts.gemm / rates_.compute_gemm : 0.0);
  };
  PhaseTimes times;
  for (int64_t s = 0; s < output.num_sublayers(); ++s) {
    const SublayerWidths widths = widths_of(output, s);
    times.add("heal", forward_of(config_, s, share) + forward_of(output, s, share) +
                          kForwardAndBack * forward_of(output, s, trained) +
                          number(healing.epochs + 1) * forward_of(output, s, held_out));
    const auto parameters =
        number(sublayer_parameters(output, s, widths.in, widths.out, /*folded=*/false));
    times.add("heal", steps * parameters * kStepBytes / ranks() / rates_.memory);
    times.add("heal", steps * collective(parameters * (8.0 + bytes)));
    times.add("heal", put(parameters * number(size_in_bytes(job_.output_dtype))) / ranks());
  }
  return times;
}

}  // namespace dotresize
