#pragma once

#include <functional>

#include "base/phase_clock.h"
#include "job/plan/allocate/allocation.h"
#include "worker/calibration/calibration_job.h"
#include "worker/calibration/sublayer_cuts.h"
#include "worker/comm/communicator.h"

namespace dotresize {

/// Returns the KL divergence of the dense model from the same model with its sublayers cut as in
/// `cut`: nats per token, on windows to which nothing was fitted. The cut tensors must be in the
/// journal. The result is the same on every rank, for any number of ranks. Collective.
using CutTrial = std::function<double(const ModelConfig& cut)>;

/// Result of cut_by_loss().
struct AllocatedCut {
  Allocation allocation;     ///< its predictions are scaled to the trial
  ModelConfig config;        ///< the dense model with the chosen widths
  double held_out_kl = 0.0;  ///< KL of the trial
};

/// `method.allocate: auto` (docs/method.md, "All sizes by loss"): measures what each sublayer may
/// lose on the fitted windows, chooses, tries the choice on the held-out windows, and cuts the
/// sublayers to it with the sums of all windows. `curves`: journal for what does not depend on
/// `size`, the job's own or that of its statistics. A resumed job makes the same choice. The result
/// is the same on every rank, for any number of ranks. Collective.
AllocatedCut cut_by_loss(Communicator& comm, const CalibrationJob& dense, const ResolvedJob& job,
                         Journal& curves, const AllocationWindows& windows,
                         const CalibrationObserver& observer, PhaseClock& clock,
                         const CutTrial& trial);

}  // namespace dotresize
