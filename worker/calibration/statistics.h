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

// What the calibration tokens leave at the junctions of the dense model, as entries of a Journal:
// that of a job, or a directory that other jobs use (`calibration.statistics`;
// docs/architecture.md, "Statistics"). Tensors are float64 and named as FirstPass,
// DecomposedJunction and CostSums do.

/// The sums of junction J's first pass.
std::string first_entry(int64_t junction);
/// In the PCA basis what is left of it, for a map of its own.
std::string basis_entry(int64_t junction);
/// The same for a map that junctions share: of the one whose first junction this is.
std::string rotation_entry(int64_t map);
/// The sums of its second pass, in one of these bases.
std::string second_entry(int64_t junction);

// Entries of an allocation's first round, which any size may follow.

/// Predicted rise of a sublayer at every width, and the order in which its features go.
std::string curve_entry(int64_t sublayer);
/// The basis and the metric of a junction of the dense model; with a shared map its sums.
std::string dense_entry(int64_t junction);
/// Basis of the shared map.
inline constexpr char kSharedBasis[] = "dense-map";
/// Predicted rise of a junction at every pair of widths.
std::string rises_entry(int64_t junction);
/// All of them.
std::vector<std::string> first_round_entries(const ModelConfig& config, const ResolvedJob& job);

/// Selects the entries of statistics, but for those of an allocation.
struct StatisticsKind {
  bool pca = false;    ///< the basis of the maps
  bool costs = false;  ///< l1 costs and norms in that basis
  /// As CalibrationJob::sharing: which junctions have a basis together, if costs are in it. Empty:
  /// each has its own.
  std::vector<int64_t> groups = {};

  bool second_pass() const { return pca && costs; }
  /// All that there are of a model with so many junctions.
  std::vector<std::string> entries(int64_t junctions) const;
};

/// Those of all junctions, with maps or without, into `job.journal`, which is that of the
/// statistics; what is in it is not computed again. All junctions are mapped. Collective.
void take_statistics(Communicator& comm, const CalibrationJob& job,
                     const CalibrationObserver& observer, PhaseClock& clock);

/// The entry of the statistics that the job uses, else of its journal. Throws InputError if it is
/// not whole: a tensor of `required` is missing, or one has another shape or dtype.
NamedTensors kept_sums(const CalibrationJob& job, const std::string& entry,
                       std::initializer_list<const char*> required);

/// From the statistics that the job uses, for a map of its own.
DecomposedJunction kept_decomposition(const CalibrationJob& job, const JunctionSetup& setup);
SecondPass kept_second_pass(const CalibrationJob& job, const JunctionSetup& setup);

}  // namespace dotresize
