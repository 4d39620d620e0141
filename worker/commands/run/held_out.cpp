#include "worker/commands/run/held_out.h"

#include <ATen/ATen.h>

#include <utility>
#include <vector>

#include "job/plan/estimate/memory_estimate.h"
#include "worker/commands/run/resume.h"
#include "worker/transformer/stage/microbatches.h"

namespace dotresize {
namespace {

constexpr int64_t kOneIn = 8;

/// Builds an evaluation whose tokens do not count in the job's progress.
CheckpointEvaluation evaluation_of(const JobContext& run, const CheckpointReader& reader,
                                   const ModelConfig& config, const at::Tensor& windows) {
  return {.reader = reader,
          .config = config,
          .windows = windows,
          .compute_dtype = run.compute_dtype(),
          .device = run.environment.device.device,
          .tokens_at_once = evaluation_tokens_at_once(run.job, run.config),
          .tokens_seen = [](int64_t) {}};
}

}  // namespace

SplitWindows split_windows(const at::Tensor& all) {
  const int64_t windows = all.size(0);
  if (windows == 1) return {all, all, {0}, {0}};
  std::vector<int64_t> fitted;
  std::vector<int64_t> held_out;
  for (int64_t window = 0; window < windows; ++window) {
    const bool last_of_few = windows < kOneIn && window + 1 == windows;
    const bool is_held_out = window % kOneIn == kOneIn - 1 || last_of_few;
    (is_held_out ? held_out : fitted).push_back(window);
  }
  const auto rows = [&](const std::vector<int64_t>& of) {
    return all.index_select(0, at::tensor(of, at::kLong));
  };
  return {rows(fitted), rows(held_out), fitted, held_out};
}

std::optional<TokenWindows> take_held_out(const ResolvedJob& job, TokenWindows& calibration) {
  if (!job.target.allocation) return std::nullopt;
  SplitWindows split = split_windows(calibration.windows);
  calibration.windows = split.fitted;
  calibration.numbers = std::move(split.fitted_numbers);
  return TokenWindows{split.held_out, "held-out", std::move(split.held_out_numbers)};
}

void keep_dense_states(JobContext& run, const at::Tensor& windows, KeptStates& states) {
  if (states.complete(count_microbatches(windows))) return;
  CheckpointEvaluation dense = evaluation_of(run, run.source, run.config, windows);
  dense.keep = [&](int64_t first, const std::vector<at::Tensor>& of_microbatches) {
    states.put(first, of_microbatches);
  };
  evaluate_checkpoint(run.comm, dense);
}

HeldOutDivergence::HeldOutDivergence(JobContext& run, const TokenWindows& windows, Journal& journal)
    : run_(run), windows_(windows), states_(journal, dense_states_entry(windows)) {
  const PhaseClock::Scope scope(run_.clock, "check");
  keep_dense_states(run_, windows_.windows, states_);
}

double HeldOutDivergence::of(const CheckpointReader& reader, const ModelConfig& config) {
  const PhaseClock::Scope scope(run_.clock, "check");
  const EvaluatedReference reference{run_.source, run_.config,
                                     [&](int64_t microbatch) { return states_.get(microbatch); }};
  CheckpointEvaluation compared = evaluation_of(run_, reader, config, windows_.windows);
  compared.reference = &reference;
  return rounded_nats(evaluate_checkpoint(run_.comm, compared).divergence->mean_kl());
}

}  // namespace dotresize
