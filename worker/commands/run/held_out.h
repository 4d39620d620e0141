#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "worker/commands/kept_states.h"
#include "worker/commands/run/job_context.h"
#include "worker/evaluation/perplexity.h"

namespace dotresize {

/// Windows that something is fitted to, and those that say how well it does on others.
struct SplitWindows {
  at::Tensor fitted;    ///< ids [samples, seqlen] int64
  at::Tensor held_out;  ///< every eighth of all, or the last one of fewer
  // Their numbers among all.
  std::vector<int64_t> fitted_numbers;
  std::vector<int64_t> held_out_numbers;
};

/// A single window is both.
SplitWindows split_windows(const at::Tensor& all);

/// Windows of the calibration that nothing is fitted to, if the job checks its own choice
/// (`method.allocate`). Takes them out of `calibration`. A
/// job with a single window has none: it is checked with that one.
std::optional<TokenWindows> take_held_out(const ResolvedJob& job, TokenWindows& calibration);

/// Takes the dense model through the windows, unless `states` has its final states of them.
/// Collective.
void keep_dense_states(JobContext& run, const at::Tensor& windows, KeptStates& states);

/// How far models are from the dense one over these windows.
class HeldOutDivergence {
 public:
  /// Takes the dense model through them, unless the journal has its final states. Collective.
  HeldOutDivergence(JobContext& run, const TokenWindows& windows, Journal& journal);

  /// KL of the model from the dense one, in nats a token, to four digits. The same on every rank,
  /// whatever their number. Collective.
  double of(const CheckpointReader& reader, const ModelConfig& config);

 private:
  JobContext& run_;
  const TokenWindows& windows_;
  KeptStates states_;
};

}  // namespace dotresize
