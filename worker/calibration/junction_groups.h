#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "worker/calibration/calibration_job.h"
#include "worker/calibration/junction_passes.h"
#include "worker/comm/communicator.h"
#include "worker/transformer/stage/stage.h"

namespace dotresize {

/// A junction of a pipeline stage, and the sums of its current phase.
struct StageJunction {
  JunctionSetup setup;

  std::optional<FirstPass> first = {};                ///< set until the junction is decomposed
  std::optional<DecomposedJunction> decomposed = {};  ///< set until the junction is solved
  at::Tensor rotation = {};  ///< basis of the second pass, set during that pass
  std::optional<CostSums> second = {};
};

/// Junctions of one rank whose moments are taken in the same passes over the tokens.
struct JunctionGroup {
  std::vector<StageJunction> junctions;
  int64_t largest = 0;  ///< number of junctions of the rank that has most of them in this group

  /// Returns null if the junction is not in this group.
  StageJunction* find(int64_t junction);
};

/// Returns the setup of a junction whose sums are those of one rank.
JunctionSetup setup_of(const CalibrationJob& job, int64_t junction, PhaseClock& clock);

/// Adds a microbatch to the junction's first pass. The first microbatch creates it.
void add_first(const CalibrationJob& job, StageJunction& junction, const at::Tensor& x);

/// Returns the mapped junctions that a rank's stage writes, in order.
std::vector<int64_t> junctions_of(const CalibrationJob& job, const RankShard& shard);

/// One pass of windows through the dense model.
struct Pass {
  const at::Tensor& windows;            ///< [samples, seqlen] int64
  const std::vector<int64_t>& numbers;  ///< numbers of the windows, as in label_gradient()
  /// Called with each microbatch at each junction of this rank.
  JunctionVisitor see_state;
  /// Called with the gradients of the loss. If it is set, on all ranks, the pass goes back too.
  /// Only in the metric of the loss.
  JunctionVisitor see_gradient = nullptr;
  /// Called with the inputs of out_proj. If it is set, the pass goes through all sublayers.
  SublayerVisitor see_features = nullptr;
};

/// Passes of a pipeline: streams tokens through the dense model, with this rank's stage of it. The
/// maps and cuts of a pipelined schedule take their sums here. References outlive the object.
class PipelinePasses {
 public:
  PipelinePasses(Communicator& comm, const CalibrationJob& job, const CalibrationObserver& observer,
                 PhaseClock& clock)
      : comm_(comm), job_(job), observer_(observer), clock_(clock) {}

  /// Calls `step` with parts of this rank's `pending` of at most at_once(shard) items, and with the
  /// size of the largest part over all ranks. Every rank makes the same number of calls; a rank
  /// that has less to do gets empty parts. Collective.
  void in_parts(const std::vector<int64_t>& pending,
                const std::function<int64_t(const RankShard&)>& at_once,
                const std::function<void(std::span<const int64_t> part, int64_t largest)>& step);
  /// Calls `step` with groups of this rank's pending junctions, as many at a time as the plan has
  /// memory for. Every rank makes the same number of calls. Collective.
  void in_groups(const std::vector<int64_t>& pending,
                 const std::function<void(JunctionGroup&)>& step);

  /// Loads the stage if it is not in memory, and makes the pass. Collective.
  void run(const Pass& pass);
  /// Takes the FirstPass of each junction of the group, or the CostSums of its second pass, which
  /// needs the junctions' `rotation`. In the metric of the loss the first pass includes the
  /// backward pass. Collective.
  void first(JunctionGroup& group);
  void second(JunctionGroup& group);
  /// Frees the stage's weights. Another pass would load them again.
  void unload();

 private:
  Communicator& comm_;
  const CalibrationJob& job_;
  const CalibrationObserver& observer_;
  PhaseClock& clock_;
  std::optional<Stage> stage_;
  HeadWeights head_;  ///< last rank only, from the first backward pass on
};

}  // namespace dotresize
