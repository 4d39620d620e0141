#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "worker/calibration/calibration.h"
#include "worker/calibration/junction_passes.h"
#include "worker/comm/communicator.h"
#include "worker/transformer/stage.h"

namespace dotresize {

/// A junction of a pipeline stage, in the phase that it has reached.
struct StageJunction {
  JunctionSetup setup;

  std::optional<FirstPass> first = {};                ///< until it is decomposed
  std::optional<DecomposedJunction> decomposed = {};  ///< until it is solved
  at::Tensor rotation = {};                           ///< of the second pass, during it
  std::optional<SecondPass> second = {};
};

/// Junctions of one rank whose moments are taken in the same passes over the tokens.
struct JunctionGroup {
  std::vector<StageJunction> junctions;
  int64_t largest = 0;  ///< number of junctions of the rank that has most of them in this group

  /// Null if the junction is not of this group.
  StageJunction* find(int64_t junction);
};

/// Adds a microbatch to the first pass of the junction; the first one begins it.
void add_first(const CalibrationJob& job, StageJunction& junction, const at::Tensor& x);

/// The mapped junctions that a rank's stage writes, in order.
std::vector<int64_t> junctions_of(const CalibrationJob& job, const RankShard& shard);

/// Calls `step` with as many of this rank's `pending` at a time as `at_once` says of its shard, and
/// with the number that the rank has that gets most. Every rank's `step` is called the same number
/// of times, with nothing if it has less to do. Collective.
void in_parts(Communicator& comm, const ShardPlan& plan, const std::vector<int64_t>& pending,
              const std::function<int64_t(const RankShard&)>& at_once,
              const std::function<void(std::span<const int64_t> part, int64_t largest)>& step);

/// Calls `step` with the pending junctions of this rank, as many at a time as the plan has memory
/// for. Every rank's `step` is called the same number of times. Collective.
void in_groups(Communicator& comm, const CalibrationJob& job, const std::vector<int64_t>& pending,
               PhaseClock& clock, const std::function<void(JunctionGroup&)>& step);

/// The forward passes of a pipeline: the calibration tokens through the dense model, with this
/// rank's stage of it. References outlive the object.
class PipelinePasses {
 public:
  PipelinePasses(Communicator& comm, const CalibrationJob& job, const CalibrationObserver& observer,
                 PhaseClock& clock)
      : comm_(comm), job_(job), observer_(observer), clock_(clock) {}

  /// FirstPass or SecondPass (whose rotation is known) of each junction of the group. The first x
  /// of a junction decides in which precision its costs are summed. In the metric of the loss the
  /// first pass goes back too. Collective.
  void first(JunctionGroup& group);
  void second(JunctionGroup& group);
  /// Calls `visit` with each microbatch of the rank's junctions `wanted`, x and the gradient of the
  /// loss with respect to it, of these windows. In the metric of the loss. Collective.
  void pairs(
      std::span<const int64_t> wanted, const at::Tensor& windows,
      const std::function<void(int64_t junction, const at::Tensor& x, const at::Tensor& g)>& visit);
  /// Gives the stage's weights back; another pass would load them again.
  void unload() {
    stage_.reset();
    head_ = {};
  }

 private:
  /// In the metric of the loss the way back needs all sublayers of the stage, and the head.
  bool gradients() const { return job_.map.metric == Metric::kFisher; }
  void load();
  void stream(const JunctionVisitor& visit);
  void stream_and_back(JunctionGroup& group);

  Communicator& comm_;
  const CalibrationJob& job_;
  const CalibrationObserver& observer_;
  PhaseClock& clock_;
  std::optional<Stage> stage_;
  HeadWeights head_;  ///< on the last rank, if gradients()
};

}  // namespace dotresize
