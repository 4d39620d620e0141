#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

#include "job/plan/resolved_job.h"
#include "worker/calibration/calibration.h"
#include "worker/calibration/junction_passes.h"
#include "worker/comm/communicator.h"

namespace dotresize {

// Sums over the calibration tokens at the junctions of the dense model, as entries of a Journal:
// the job's own, or a directory for other jobs (`calibration.statistics`; docs/architecture.md,
// "Statistics"). Tensors are float64, with the names used by FirstPass, DecomposedJunction and
// CostSums.

/// Returns the names of all entries of an allocation's first round (storage/entries.h).
std::vector<std::string> first_round_entries(const ModelConfig& config, const ResolvedJob& job);

/// Selects the entries of statistics, except those of an allocation.
struct StatisticsKind {
  bool pca = false;    ///< the basis of the maps
  bool costs = false;  ///< l1 costs and norms in that basis
  /// Groups of junctions that share a basis, as CalibrationJob::sharing; used if there are costs in
  /// the PCA basis. Empty: each junction has its own.
  std::vector<int64_t> groups = {};

  /// Returns the names of all entries for this number of junctions.
  std::vector<std::string> entries(int64_t junctions) const;
};

/// Writes the statistics of all junctions to `job.journal`, the journal of the statistics. Its
/// entries are not computed again. All junctions must be mapped. Collective.
void take_statistics(Communicator& comm, const CalibrationJob& job,
                     const CalibrationObserver& observer, PhaseClock& clock);

/// Reads an entry of the statistics that the job uses, else of its journal. An entry of statistics
/// is checked: throws InputError if a tensor of `required` is missing, or if a tensor has another
/// shape or dtype.
NamedTensors kept_sums(const CalibrationJob& job, const std::string& entry,
                       std::initializer_list<const char*> required);

}  // namespace dotresize
