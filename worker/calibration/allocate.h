#pragma once

#include <functional>
#include <optional>

#include "base/phase_clock.h"
#include "job/plan/allocate/joint_allocation.h"
#include "worker/calibration/calibration.h"
#include "worker/calibration/cut_tensors.h"
#include "worker/calibration/junction_loss_increases.h"
#include "worker/comm/communicator.h"

namespace dotresize {

/// Returns the KL divergence of the dense model from the same model with its sublayers cut as in
/// `cut`: nats per token, on windows to which nothing was fitted. The cut tensors must be in the
/// journal. The result is the same on every rank, for any number of ranks. Collective.
using CutTrial = std::function<double(const ModelConfig& cut)>;

/// `method.allocate: auto` (docs/method.md, "All widths by loss"). A trial measures the loss of the
/// best allocation without maps; all predictions are scaled to agree with it. An allocation with
/// maps is taken only if its predicted loss is clearly lower at the same size. Rank 0 writes the
/// choice to the journal, so a resumed job makes the same choice. The choice is the same on every
/// rank, for any number of ranks. All calls are collective.
class AllocationChoice {
 public:
  /// References outlive the object. `all_windows` [samples, seqlen] int64: the windows of `dense`
  /// and the held-out ones, whose numbers are `held_out`. A single window is in both sets.
  AllocationChoice(Communicator& comm, const CalibrationJob& dense, at::Tensor all_windows,
                   std::vector<int64_t> held_out, const ResolvedJob& job,
                   const CalibrationObserver& observer, PhaseClock& clock, CutTrial trial);

  const Allocation& chosen() const { return chosen_.best; }
  /// Cuts the dense model's MLPs and value heads to the sizes of chosen(), and returns the config
  /// with these sizes. Frees the sums that were kept for the cut. If chosen() has no maps, the
  /// trial is over and the cut is final, so it is fitted to all windows.
  ModelConfig cut();
  /// KL of chosen() in its trial, if chosen() has no maps. Its output is fitted to the held-out
  /// windows too, so they cannot measure it.
  std::optional<double> seen_in_trial() const;

  /// Checks `measured`, the KL of the output made with chosen(), in nats per token of windows to
  /// which nothing was fitted. If it exceeds the trial loss of the allocation without maps, that
  /// allocation becomes chosen(). If there is no such allocation and `measured` is more than twice
  /// the prediction, the search is repeated once with the predicted increases of maps scaled to the
  /// measured loss. Returns true if chosen() has changed; the journal's entries of maps are then
  /// removed.
  bool correct(double measured);

 private:
  struct Kept {
    Allocation best;
    std::optional<Allocation> without_maps;  ///< empty: `best` has no maps
    bool corrected = false;
  };
  /// Predicts the loss increases of all parts, and corrects them by the trial.
  void measure();
  ModelConfig cut_as(const Allocation& allocation, const CalibrationJob& job);
  void keep();

  Communicator& comm_;
  const CalibrationJob& dense_;
  at::Tensor all_windows_;
  std::vector<int64_t> held_out_;
  const ResolvedJob& job_;
  const CalibrationObserver& observer_;
  PhaseClock& clock_;
  CutTrial trial_;
  JunctionLossIncreases junctions_;
  AllocationSums sums_;
  std::optional<PredictedLossIncreases> loss_increases_;  ///< set once measured in this run
  Kept chosen_;
};

}  // namespace dotresize
