#pragma once

#include <cstdint>
#include <optional>

#include "worker/calibration/calibration.h"
#include "worker/calibration/junction_passes.h"
#include "worker/comm/communicator.h"
#include "worker/transformer/microbatches.h"

namespace dotresize {

/// One junction from the residual stream x of all ranks' microbatches [., ., d] to its map. At the
/// owner the sums are those of all ranks, and do not depend on their number. Returns what the owner
/// has solved; nothing elsewhere. Collective.
std::optional<SolvedJunction> solve_over_ranks(Communicator& comm, const CalibrationJob& job,
                                               int64_t junction, const Microbatches& x, int owner,
                                               PhaseClock& clock);



/// The stream of this rank's share of the job's windows at junction 0, from an embedding rounded to
/// `dtype`.
Microbatches embed_share(Communicator& comm, const CalibrationJob& job, at::ScalarType dtype,
                         PhaseClock& clock);

}  // namespace dotresize
