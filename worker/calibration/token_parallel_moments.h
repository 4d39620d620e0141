#pragma once

#include <cstdint>
#include <optional>

#include "worker/calibration/calibration.h"
#include "worker/calibration/junction_passes.h"
#include "worker/comm/communicator.h"
#include "worker/transformer/microbatches.h"

namespace dotresize {

/// One junction from the residual stream of all ranks' microbatches to its map, in steps. At the
/// owner the sums are those of all ranks, and do not depend on their number. Junctions of different
/// owners may take each step together.
class JunctionOverRanks {
 public:
  /// The first pass over x [., ., d], whose sums go to the owner. Keeps x if the map needs a second
  /// one. Collective. References outlive it.
  JunctionOverRanks(Communicator& comm, const CalibrationJob& job, int64_t junction,
                    const Microbatches& x, int owner, PhaseClock& clock);

  int owner() const { return owner_; }
  /// At the owner; nothing elsewhere.
  void decompose();
  /// If the map needs one: x goes. Collective.
  void second_pass();
  /// What the owner has solved; nothing elsewhere.
  std::optional<SolvedJunction> solve();

 private:
  bool owns() const { return comm_.rank() == owner_; }
  /// The precision that suits the first microbatch, whichever rank has it: the same one on all
  /// ranks, and for any number of them.
  CostPrecision agreed_precision(const Microbatches& x, const at::Tensor& rotation);

  Communicator& comm_;
  const CalibrationJob& job_;
  JunctionSetup setup_;
  int owner_;
  Microbatches x_;
  // At the owner:
  std::optional<FirstPass> first_;
  std::optional<DecomposedJunction> decomposed_;
  std::optional<SecondPass> second_;
};

/// The stream of this rank's share of the job's windows at junction 0, from an embedding rounded to
/// `dtype`.
Microbatches embed_share(Communicator& comm, const CalibrationJob& job, at::ScalarType dtype,
                         PhaseClock& clock);

}  // namespace dotresize
