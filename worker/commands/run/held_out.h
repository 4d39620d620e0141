#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "worker/commands/kept_states.h"
#include "worker/commands/run/job_context.h"
#include "worker/evaluation/perplexity.h"

namespace dotresize {

/// Windows for fitting, and held-out windows that measure the fit.
struct SplitWindows {
  at::Tensor fitted;    ///< ids [samples, seqlen] int64
  at::Tensor held_out;  ///< every eighth window; the last one if there are fewer than eight
  // Positions in the whole set.
  std::vector<int64_t> fitted_numbers;
  std::vector<int64_t> held_out_numbers;
};

/// Splits the windows. A single window is used for both.
SplitWindows split_windows(const at::Tensor& all);

/// Takes held-out windows out of `calibration`, if the job checks its own choice
/// (`method.allocate`); otherwise returns nothing. A job with a single window is checked with that
/// one.
std::optional<TokenWindows> take_held_out(const ResolvedJob& job, TokenWindows& calibration);

/// Runs the dense model over the windows, unless `states` has its final states. Collective.
void keep_dense_states(JobContext& run, const at::Tensor& windows, KeptStates& states);

/// Measures the divergence of models from the dense one over some windows.
class HeldOutDivergence {
 public:
  /// Runs the dense model over the windows, unless the journal has its final states. Collective.
  HeldOutDivergence(JobContext& run, const TokenWindows& windows, Journal& journal);

  /// Returns the KL divergence of the model from the dense one in nats a token, rounded to four
  /// digits. The same on every rank and for any number of ranks. Collective.
  double of(const CheckpointReader& reader, const ModelConfig& config);

 private:
  JobContext& run_;
  const TokenWindows& windows_;
  KeptStates states_;
};

}  // namespace dotresize
