#include "worker/commands/run/job_healing.h"

#include <fmt/core.h>

#include "worker/commands/run/held_out.h"
#include "worker/healing/heal.h"

namespace dotresize {
namespace {

void tell(const HealedLayerReport& layer, bool found) {
  fmt::print(stderr, "healed {}: error {:.5f} -> {:.5f} on held-out windows{}{}\n", layer.name,
             layer.folded_error, layer.healed_error,
             layer.epochs == 0 ? ", the folded weights stay" : "",
             found ? ", by an earlier run" : "");
}

}  // namespace

std::vector<HealedLayerReport> heal(JobContext& run, const JobTokens& tokens, OpenedJournal& opened,
                                    const Calibrated& calibrated) {
  if (!run.job.healing || run.job.healing->epochs == 0) return {};
  run.progress().enter("heal");
  const CheckpointReader folded(run.partial());
  const CalibrationJob calibration =
      calibration_job(run, calibrated.cut, run.source, tokens.calibration, opened);
  const SplitWindows windows = split_windows(tokens.healing->windows);
  const HealingJob job{calibration,    run.source,        run.config,
                       folded,         calibrated.output, scalar_type(run.job.output_dtype),
                       windows.fitted, windows.held_out,  *run.job.healing};
  const HealingObserver observer{run.count_tokens(),
                                 [&](const HealedLayerReport& layer, bool found) {
                                   if (run.root()) tell(layer, found);
                                 }};
  std::vector<HealedLayerReport> layers = heal_layers(run.comm, job, observer, run.clock);
  const PhaseClock::Scope scope(run.clock, "write");
  write_healed_layers(run.comm, opened.journal, calibrated.output, layers, run.partial(),
                      calibrated.layout);
  return layers;
}

}  // namespace dotresize
