#include <algorithm>
#include <cmath>

#include "job/plan/healing.h"
#include "job/plan/job_time.h"

namespace dotresize {
namespace {

/// What an element of a gradient moves until the weight is changed: it is rounded and added in
/// float64, then moments and parameter are read and written in float32.
constexpr double kStepBytes = 80.0;
/// Of the gradient of weights and inputs, as of a sublayer's way back.
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
  const double trained = steps * turns * microbatch_tokens() *
                         share_of(std::min<double>(number(at_once), ranks()));
  const double share = number(windows * seqlen()) / ranks() / rates_.alone;
  const double held_out = number((windows - fitted_windows(windows)) * seqlen()) / ranks();
  const double bytes = number(size_in_bytes(job_.compute_dtype));
  PhaseTimes times;
  for (int64_t s = 0; s < output.num_sublayers(); ++s) {
    const SublayerWidths widths = widths_of(output, s);
    times.add("heal", forward(config_, s, widths_of(config_, s), share) +
                          forward(output, s, widths, share) +
                          kForwardAndBack * forward(output, s, widths, trained) +
                          number(healing.epochs + 1) * forward(output, s, widths, held_out));
    const auto parameters =
        number(sublayer_parameters(output, s, widths.in, widths.out, /*folded=*/false));
    times.add("heal", steps * parameters * kStepBytes / ranks() / rates_.memory);
    times.add("heal", steps * collective(parameters * (8.0 + bytes)));
    times.add("heal", put(parameters * number(size_in_bytes(job_.output_dtype))) / ranks());
  }
  return times;
}

}  // namespace dotresize
