#include "worker/calibration/allocated_cut.h"

#include <ATen/ATen.h>

#include <nlohmann/json.hpp>
#include <vector>

namespace dotresize {
namespace {

constexpr char kKl[] = "kl";

/// Returns the KL of the cut model in its trial, which the journal keeps. Features go in the order
/// of the curves.
double kl_of_trial(Communicator& comm, const CalibrationJob& dense, const ResolvedJob& job,
                   const Journal& curves, const AllocationWindows& windows, const ModelConfig& cut,
                   std::vector<SublayerSums>& kept, const CalibrationObserver& observer,
                   PhaseClock& clock, const CutTrial& trial) {
  if (!dense.journal.has(entries::kTrial)) {
    const CutSums sums{.rounds = {windows.fitted},
                       .kept = &kept,
                       .curves = &curves,
                       .gradients = {entries::kGradients},
                       .known_order = true,
                       .tokens = windows.fitted.windows.numel(),
                       .for_trial = true};
    cut_sublayers(comm, dense, job, cut, sums, observer, clock);
    const double kl = trial(cut);
    if (comm.rank() == 0) dense.journal.put_value(entries::kTrial, {{kKl, kl}});
    comm.barrier();
  }
  return dense.journal.value(entries::kTrial).at(kKl).get<double>();
}

}  // namespace

AllocatedCut cut_by_loss(Communicator& comm, const CalibrationJob& dense, const ResolvedJob& job,
                         Journal& curves, const AllocationWindows& windows,
                         const CalibrationObserver& observer, PhaseClock& clock,
                         const CutTrial& trial) {
  std::vector<SublayerSums> kept;
  const std::vector<SublayerCurve> measured =
      measure_curves(comm, dense, job, curves, windows, kept, observer, clock);
  AllocatedCut found;
  {
    const PhaseClock::Scope scope(clock, "solve");
    found.allocation = allocate(dense.config, job, measured);
  }
  found.config = with_chosen_sizes(dense.config, job, found.allocation);
  found.held_out_kl =
      kl_of_trial(comm, dense, job, curves, windows, found.config, kept, observer, clock, trial);
  // The ratio of measured to predicted loss serves for all parts of the model: any part that is
  // fitted to few tokens loses more on others.
  const double predicted = found.allocation.predicted_loss_increase();
  if (found.held_out_kl > 0.0 && predicted > 0.0) {
    for (ChosenSize& one : found.allocation.chosen) {
      one.predicted_loss_increase *= found.held_out_kl / predicted;
    }
  }
  CutSums sums{.rounds = {windows.fitted},
               .kept = &kept,
               .curves = &curves,
               .gradients = {entries::kGradients},
               .tokens = windows.fitted.windows.numel()};
  if (windows.has_others()) {  // the trial is over
    sums.rounds.push_back(windows.held_out);
    sums.rounds_of_kept = {windows.held_out};
    sums.gradients.push_back(entries::kHeldOutGradients);
    sums.tokens += windows.held_out.windows.numel();
  }
  cut_sublayers(comm, dense, job, found.config, sums, observer, clock);
  return found;
}

}  // namespace dotresize
