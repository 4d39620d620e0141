#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "job/spec/requests.h"
#include "worker/evaluation/whole_model.h"

namespace dotresize {

/// Statistics of the times of all repetitions.
struct Spread {
  double median = 0.0;
  double p10 = 0.0;  ///< 10th percentile
  double p90 = 0.0;
};

/// Computes percentiles, interpolated linearly between samples. Needs at least one sample.
Spread spread_of(std::vector<double> samples);

/// Milliseconds per token of a sequence, one sample per repetition. A batch runs all of its
/// sequences at once, so tokens per second are 1000 · batch / time.
struct LatencySamples {
  std::vector<double> prompt_ms;  ///< time of reading the prompt at once, over its number of tokens
  std::vector<double> decode_ms;  ///< time of reading later tokens one by one, over their number
};

/// Returns random token ids [batch, options.tokens()] int64, the same for equal options and
/// vocabulary sizes.
at::Tensor latency_ids(const LatencyOptions& options, int64_t vocab_size);

/// Runs prompt and decoding `warmup` times and then `repetitions` times, in the weights' dtype, and
/// times the repetitions. `after_run` gets the number of tokens that a run has read.
LatencySamples measure_latency(const WholeModel& model, const LatencyOptions& options,
                               const std::function<void(int64_t tokens)>& after_run);

}  // namespace dotresize
