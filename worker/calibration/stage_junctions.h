#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "worker/calibration/calibration.h"
#include "worker/calibration/junction_passes.h"
#include "worker/comm/communicator.h"

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

/// A group of neighbouring junctions with one map (docs/method.md, "Sharing maps"), on a rank that
/// has one or more of them. Moments stay on their rank; their scaled sums go to the owner of the
/// group's first junction, which solves and sends the map back. All ranks of the group call the
/// same functions in the same order, and a rank takes its groups in ascending order.
class SharedMap {
 public:
  /// Junctions [first, end) of the model; `mine` are those of this rank. References outlive the
  /// object.
  SharedMap(Communicator& comm, const ShardPlan& plan, int64_t first, int64_t end,
            std::vector<StageJunction*> mine);

  /// After the first pass: the group's eigenbasis, and its rotation for this rank's junctions.
  void decompose(int64_t tokens);
  /// After the second pass, if there is one.
  void solve(int64_t width, int64_t tokens);
  /// The group's map, with what the tokens of a junction of this rank say about it. After solve().
  JunctionSolution solution_for(StageJunction& junction) const;

 private:
  bool owner() const { return comm_.rank() == owner_; }
  /// The sum over the ranks of the group arrives at the owner.
  void reduce(const std::vector<at::Tensor>& sums);
  /// From the owner to the other ranks of the group.
  void broadcast(at::Tensor& tensor);
  void broadcast_diagnostics();

  Communicator& comm_;
  int owner_;
  int last_rank_;
  std::vector<StageJunction*> mine_;
  JunctionSetup setup_;                      ///< errors name the group's first junction
  std::optional<DecomposedJunction> group_;  ///< at the owner
  at::Tensor rotation_;
  JunctionSolution solution_;
};

/// Those groups of two or more junctions of which this rank has a part, in order. Its junctions
/// then know their map.
std::vector<std::unique_ptr<SharedMap>> make_shared_maps(Communicator& comm,
                                                         const CalibrationJob& job,
                                                         StageJunctions& stage);

}  // namespace dotresize
