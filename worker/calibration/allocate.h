#pragma once

#include <functional>
#include <optional>

#include "base/phase_clock.h"
#include "job/plan/allocate/joint_allocation.h"
#include "worker/calibration/calibration.h"
#include "worker/calibration/junction_rises.h"
#include "worker/calibration/sublayer_cuts.h"
#include "worker/comm/communicator.h"

namespace dotresize {

/// KL of the dense model, its sublayers cut as in `cut`, from the dense model itself: nats a token
/// of windows that nothing is fitted to. What was cut is in the journal. The same on every rank,
/// whatever their number. Collective.
using CutTrial = std::function<double(const ModelConfig& cut)>;

/// `method.allocate: auto` (docs/method.md, "All widths by loss"). All that is predicted is scaled
/// such that the best choice without maps is predicted to lose what it is seen to lose in a trial.
/// If a choice with maps is predicted to lose clearly less of the same bytes, it is taken. Rank 0
/// chooses, and the journal keeps it: a job that goes on makes the same choice. The same on every
/// rank, whatever their number. All calls are collective.
class AllocationChoice {
 public:
  /// References outlive the object. `all_windows`: [samples, seqlen] int64, those of `dense` and
  /// the held-out ones, which have the numbers `held_out`; a single one is both.
  AllocationChoice(Communicator& comm, const CalibrationJob& dense, at::Tensor all_windows,
                   std::vector<int64_t> held_out, const ResolvedJob& job,
                   const CalibrationObserver& observer, PhaseClock& clock, CutTrial trial);

  const Allocation& chosen() const { return chosen_.best; }
  /// Cuts the dense model's MLPs and value heads as chosen(), and returns it with these sizes. What
  /// was kept for that is gone afterwards. Without maps nothing comes after it, and the trial has
  /// been: the cut is fitted to all windows.
  ModelConfig cut();
  /// KL of what chosen() has become in its trial, if its output is fitted to the held-out windows.
  std::optional<double> seen_in_trial() const;

  /// Of the output that was made with chosen(): its KL from the dense model, in nats a token of
  /// windows that nothing was fitted to. If that is more than the choice without maps lost in its
  /// trial, that one is the choice from here on; if it is more than twice what was predicted, and
  /// there is no such choice, the search is repeated once with the rises of junctions scaled to
  /// what was seen. Returns whether chosen() is another one: what the journal has of maps is then
  /// removed.
  bool correct(double measured);

 private:
  struct Kept {
    Allocation best;
    std::optional<Allocation> without_maps;  ///< if `best` has maps
    bool corrected = false;
  };
  bool lacks_first_round() const;
  void measure();
  /// Of the choice without maps, in its trial. What is fitted to few tokens loses more on others,
  /// whichever part it is of.
  double seen_over_predicted(const PredictedRises& rises);
  ModelConfig cut_as(const Allocation& allocation, const CalibrationJob& job);
  /// Brings the held-out windows into the metrics of the sublayers that are cut.
  void extend_metrics();
  void choose();
  void keep();

  Communicator& comm_;
  const CalibrationJob& dense_;
  at::Tensor all_windows_;
  std::vector<int64_t> held_out_;
  const ResolvedJob& job_;
  const CalibrationObserver& observer_;
  PhaseClock& clock_;
  CutTrial trial_;
  JunctionRises junctions_;
  AllocationSums sums_;
  std::optional<PredictedRises> rises_;  ///< once they are measured in this run
  Kept chosen_;
};

}  // namespace dotresize
