#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "worker/calibration/calibration.h"
#include "worker/calibration/junction_passes.h"

namespace dotresize {

class SharedMap;

/// A junction of a pipeline stage, in the phase that it has reached.
struct StageJunction {
  JunctionSetup setup;
  const SharedMap* shared = nullptr;  ///< the map that it shares with others, if any

  std::optional<FirstPass> first = {};  ///< until it is decomposed; to the end if shared
  std::optional<DecomposedJunction> decomposed = {};  ///< unless shared
  at::Tensor rotation = {};                           ///< of the second pass, if there is one
  std::optional<SecondPass> second = {};
};

/// The mapped junctions of one rank: [first, first + junctions.size()).
struct StageJunctions {
  int64_t first = 0;
  std::vector<StageJunction> junctions;

  /// Null if the junction is another rank's or not mapped.
  StageJunction* find(int64_t junction);
};

/// References outlive the result.
StageJunctions make_stage_junctions(const CalibrationJob& job, const RankShard& shard,
                                    PhaseClock& clock);

/// x [..., d] float32 of a junction in either pass over the tokens. The first x of a junction
/// decides in which precision its costs are summed.
void add_in_first_pass(const CalibrationJob& job, StageJunction& junction, const at::Tensor& x);
void add_in_second_pass(const CalibrationJob& job, StageJunction& junction, const at::Tensor& x);

}  // namespace dotresize
