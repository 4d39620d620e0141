#pragma once

#include <cstdint>
#include <optional>

#include "worker/calibration/calibration_job.h"
#include "worker/calibration/junction_passes.h"
#include "worker/comm/communicator.h"
#include "worker/transformer/stage/microbatches.h"

namespace dotresize {

/// One junction over all ranks, in steps, from the residual stream of all ranks' microbatches to
/// its map. The owner gets the sums of all ranks; they do not depend on the number of ranks.
/// Junctions of different owners may take each step together.
class JunctionOverRanks {
 public:
  /// Runs the first pass over x [., ., d] and sends the sums to the owner. Keeps x if the map needs
  /// a second pass. References outlive the object. Collective.
  JunctionOverRanks(Communicator& comm, const CalibrationJob& job, int64_t junction,
                    const Microbatches& x, int owner, PhaseClock& clock);

  /// Decomposes at the owner; does nothing on other ranks.
  void decompose();
  /// Runs the second pass if the map needs one, and frees x. Collective.
  void second_pass();
  /// Returns the solution at the owner, nothing on other ranks.
  std::optional<SolvedJunction> solve();

 private:
  Communicator& comm_;
  const CalibrationJob& job_;
  JunctionSetup setup_;
  const int owner_;
  const bool owns_;
  Microbatches x_;
  // Set at the owner; `second_` on every rank during the second pass.
  std::optional<FirstPass> first_;
  std::optional<DecomposedJunction> decomposed_;
  std::optional<CostSums> second_;
};

/// Returns the stream at junction 0 of this rank's share of the job's windows, from an embedding
/// rounded to `dtype`.
Microbatches embed_share(Communicator& comm, const CalibrationJob& job, at::ScalarType dtype,
                         PhaseClock& clock);

}  // namespace dotresize
