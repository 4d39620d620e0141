#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "job/plan/shard_plan.h"
#include "worker/calibration/junction_estimator.h"
#include "worker/comm/communicator.h"

namespace dotresize {

/// A group of neighbouring junctions that get one map, as one of the ranks sees it that have a
/// junction of the group (method.md, "Sharing maps"). Moments stay where they are taken; their
/// scaled sums go to the owner of the group's first junction, which solves, and the map comes back.
/// The members call the same functions in the same order, and a rank takes its groups in ascending
/// order.
class SharedMap {
 public:
  /// Junctions [first, end) of the model; `mine` are those of this rank, one or more.
  SharedMap(Communicator& comm, const ShardPlan& plan, int64_t first, int64_t end, int64_t width,
            const MapOptions& options, std::vector<JunctionEstimator*> mine, PhaseClock& clock,
            at::Device device);

  bool contains(int64_t junction) const { return junction >= first_ && junction < end_; }

  /// After the first pass: the group's eigenbasis, and its rotation for this rank's junctions.
  void decompose(int64_t tokens);
  /// After the passes that the method needs.
  void solve(int64_t tokens);
  /// The group's map, with what a junction of the group has to say of it. After solve().
  JunctionSolution solution_for(JunctionEstimator& junction) const;

 private:
  bool owner() const { return comm_.rank() == owner_; }
  /// The members' `sums`, each a part of the group's, arrive at the owner.
  void sum_at_owner(std::vector<at::Tensor> sums);
  /// From the owner to the other members.
  void share(at::Tensor& tensor);
  void share_diagnostics();

  Communicator& comm_;
  int64_t first_;
  int64_t end_;
  int owner_;
  int last_member_;
  std::vector<JunctionEstimator*> mine_;
  JunctionEstimator group_;  ///< of this rank's junctions, at the owner of all
  JunctionSolution solution_;
};

}  // namespace dotresize
