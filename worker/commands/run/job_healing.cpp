#include "worker/commands/run/job_healing.h"

#include <fmt/core.h>

#include "worker/calibration/statistics.h"
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

/// Of an allocation, which has taken it from the dense model; a last junction that keeps its width
/// has none.
at::Tensor kept_metric(const JobContext& run, const Journal& first_round, int64_t junction) {
  const bool last = junction + 1 == run.config.num_junctions();
  if (!run.job.allocation || (last && !run.job.head_sliced)) return {};
  return metric_of_entry(first_round, junction);
}

}  // namespace

std::vector<HealedLayerReport> heal(JobContext& run, const JobTokens& tokens,
                                    OpenedJournal& opened,
                                    std::optional<StatisticsDirectory>& statistics,
                                    const Calibrated& calibrated) {
  if (!run.job.healing || run.job.healing->epochs == 0) return {};
  run.progress().enter("heal");
  const CheckpointReader folded(run.partial());
  const CalibrationJob calibration =
      calibration_job(run, calibrated.cut, run.source, tokens.calibration, opened);
  const Journal& first_round = statistics ? statistics->journal() : opened.journal;
  const SplitWindows windows = split_windows(tokens.healing->windows);
  const HealingJob job{calibration,
                       run.source,
                       run.config,
                       folded,
                       calibrated.output,
                       scalar_type(run.job.output_dtype),
                       windows.fitted,
                       windows.held_out,
                       *run.job.healing,
                       [&](int64_t j) { return kept_metric(run, first_round, j); }};
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
