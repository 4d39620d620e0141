#pragma once

#include <string>
#include <vector>

#include "job/plan/resolved_job.h"
#include "worker/calibration/calibration_job.h"
#include "worker/calibration/junction_passes.h"
#include "worker/comm/communicator.h"

namespace dotresize {

// Sums over the calibration tokens at the junctions of the dense model, as entries of a Journal:
// the job's own, or a directory for other jobs (`calibration.statistics`; docs/architecture.md,
// "Statistics"). Tensors are float64, with the names used by FirstPass, DecomposedJunction and
// CostSums.

/// Returns the names of all entries that an allocation needs from statistics (storage/entries.h).
std::vector<std::string> curve_entries(const ModelConfig& config, const ResolvedJob& job);

/// Returns the names of all entries that the job needs from statistics without an allocation.
/// `shared_basis`: the statistics have the basis of a shared map. A job without a second pass then
/// takes the basis of each junction from the sums of the first one.
std::vector<std::string> junction_entries(const ModelConfig& config, const ResolvedJob& job,
                                          bool shared_basis);

/// Writes the statistics of all junctions to `job.journal`, the journal of the statistics. Its
/// entries are not computed again. All junctions must be mapped. Collective.
void take_statistics(Communicator& comm, const CalibrationJob& job,
                     const CalibrationObserver& observer, PhaseClock& clock);

}  // namespace dotresize
