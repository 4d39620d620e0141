#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "job/spec/requests.h"
#include "worker/evaluation/whole_model.h"

namespace dotresize {

/// Of the times of all repetitions.
struct Spread {
  double median = 0.0;
  double p10 = 0.0;  ///< 10th percentile
  double p90 = 0.0;
};

/// Percentiles lie between the two samples that enclose them, in proportion. At least one sample.
Spread spread_of(std::vector<double> samples);

/// Milliseconds per token of a sequence, one sample per repetition. All sequences of a batch go at
/// once: tokens per second are 1000 · batch / time.
struct LatencySamples {
  std::vector<double> prompt_ms;  ///< the prompt read in one go, over its tokens
  std::vector<double> decode_ms;  ///< the tokens after it one at a time, over their number
};

/// Random token ids [batch, prompt_tokens + decode_tokens] int64, the same for equal options and
/// vocabularies.
at::Tensor latency_ids(const LatencyOptions& options, int64_t vocab_size);

/// Runs prompt and decoding `warmup` times and then `repetitions` times, in the weights' dtype, and
/// takes the time of the latter. `after_run` gets the number of tokens that a run has read.
LatencySamples measure_latency(const WholeModel& model, const LatencyOptions& options,
                               const std::function<void(int64_t tokens)>& after_run);

}  // namespace dotresize
