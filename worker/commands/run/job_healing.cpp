#include <fmt/core.h>

#include <utility>

#include "worker/commands/run/job_steps.h"
#include "worker/healing/heal_layers.h"
#include "worker/healing/heal_output.h"

namespace dotresize {
namespace {

/// Heals one layer after the other, into the journal and the output's files.
std::vector<HealedLayerReport> heal_layers(JobContext& run, const JobTokens& tokens,
                                           const SplitWindows& windows, OpenedJournal& opened,
                                           const Calibrated& calibrated) {
  const CheckpointReader folded(run.partial, calibrated.output);
  const CalibrationJob calibration =
      calibration_job(run, calibrated.cut, run.source, tokens.calibration, opened);
  const LayerHealingJob job{calibration,       run.source,     run.config,       folded,
                            calibrated.output, windows.fitted, windows.held_out, *run.job.healing};
  const LayerHealingObserver observer{
      run.count_tokens, [&](const HealedLayerReport& layer, bool found) {
        if (!run.root) return;
        fmt::print(stderr, "healed {}: error {:.5f} -> {:.5f} on held-out windows{}{}\n",
                   layer.name, layer.folded_error, layer.healed_error,
                   layer.epochs == 0 ? ", the folded weights stay" : "",
                   found ? ", by an earlier run" : "");
      }};
  std::vector<HealedLayerReport> layers = heal_layers(run.comm, job, observer, run.clock);
  const PhaseClock::Scope scope(run.clock, "write");
  write_healed_layers(run.comm, opened.journal, calibrated.output, layers, run.partial,
                      calibrated.layout);
  return layers;
}

/// Heals the output as a whole, starting from its files.
HealingReport heal_whole(JobContext& run, const SplitWindows& windows, OpenedJournal& opened,
                         const Calibrated& calibrated) {
  const CheckpointReader folded(run.partial, calibrated.output);
  const TokenWindows fitted{windows.fitted, "heal-fitted"};
  const TokenWindows held_out{windows.held_out, "heal-held-out"};
  for (const TokenWindows* tokens : {&fitted, &held_out}) {
    const PhaseClock::Scope scope(run.clock, "heal", "dense");
    KeptStates states(opened.journal, entries::kStates(name_of(*tokens)));
    keep_dense_states(run, tokens->windows, states);
  }
  run.comm.barrier();
  Journal of_all_ranks(run.environment.output.journal());
  const KeptStates fitted_states(of_all_ranks, entries::kStates(name_of(fitted)));
  const KeptStates held_out_states(of_all_ranks, entries::kStates(name_of(held_out)));
  const HealingJob job{
      .journal = opened.journal,
      .shard = run.shard,
      .dense = run.source,
      .dense_config = run.config,
      .folded = folded,
      .output = calibrated.output,
      .fitted = {fitted.windows, [&](int64_t m) { return fitted_states.get(m); }},
      .held_out = {held_out.windows, [&](int64_t m) { return held_out_states.get(m); }},
      .options = *run.job.healing,
      .compute_dtype = run.compute_dtype,
      .device = run.environment.device.device,
      .cores = run.environment.cores};
  const HealingObserver observer{
      run.count_tokens, [&](int64_t epochs, double kl, bool found) {
        if (!run.root) return;
        fmt::print(stderr, "KL {:.4g} on held-out windows after {} epochs of updates{}\n", kl,
                   epochs, found ? ", by an earlier run" : "");
      }};
  HealingReport report = heal_output(run.comm, job, observer, run.clock);
  if (run.root) {
    fmt::print(stderr, "took {:.0f} % of the updates: KL {:.4g} on held-out windows\n",
               100.0 * report.update_share, report.held_out_kl.back());
  }
  const PhaseClock::Scope scope(run.clock, "write");
  write_healed(run.comm, job, report, run.partial, calibrated.layout);
  return report;
}

}  // namespace

std::optional<HealingReport> heal(JobContext& run, const JobTokens& tokens, OpenedJournal& opened,
                                  const Calibrated& calibrated) {
  if (!run.job.heals()) return std::nullopt;
  run.progress.enter("heal");
  const SplitWindows windows = split_windows(tokens.healing->windows);
  std::vector<HealedLayerReport> layers = heal_layers(run, tokens, windows, opened, calibrated);
  HealingReport report = heal_whole(run, windows, opened, calibrated);
  report.layers = std::move(layers);
  return report;
}

}  // namespace dotresize
