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

/// Sums of the junction's first pass.
std::string first_entry(int64_t junction);
/// Eigenbasis of a junction with a map of its own; PCA basis only.
std::string basis_entry(int64_t junction);
/// Eigenbasis of a shared map. `map`: its first junction.
std::string rotation_entry(int64_t map);
/// Sums of the junction's second pass, in one of these bases.
std::string second_entry(int64_t junction);

// Entries of an allocation's first round. They do not depend on `size`.

/// Predicted loss increase of a sublayer at each width, and the order in which its features go.
std::string curve_entry(int64_t sublayer);
/// Basis and metric of a junction of the dense model; with a shared map, its sums.
std::string dense_entry(int64_t junction);
/// Basis of the shared map.
inline constexpr char kSharedBasis[] = "dense-map";
/// Predicted loss increase of a junction at each pair of widths.
std::string loss_increases_entry(int64_t junction);
/// Returns the names of all first-round entries.
std::vector<std::string> first_round_entries(const ModelConfig& config, const ResolvedJob& job);

/// Selects the entries of statistics, except those of an allocation.
struct StatisticsKind {
  bool pca = false;    ///< the basis of the maps
  bool costs = false;  ///< l1 costs and norms in that basis
  /// Groups of junctions that share a basis, as CalibrationJob::sharing; used if there are costs in
  /// the PCA basis. Empty: each junction has its own.
  std::vector<int64_t> groups = {};

  bool second_pass() const { return pca && costs; }
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

/// Read the phases of a junction with a map of its own from the statistics that the job uses.
DecomposedJunction kept_decomposition(const CalibrationJob& job, const JunctionSetup& setup);
SecondPass kept_second_pass(const CalibrationJob& job, const JunctionSetup& setup);

}  // namespace dotresize
