#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/phase_clock.h"
#include "job/plan/allocate/joint_allocation.h"
#include "worker/calibration/calibration.h"
#include "worker/calibration/junction_groups.h"
#include "worker/calibration/sublayer_sums.h"
#include "worker/comm/communicator.h"
#include "worker/maps/describe/predicted_loss_increase.h"

namespace dotresize {

/// Predicts the loss increase of the maps of the dense model's junctions, and of the ranks of the
/// shortcuts between them (docs/method.md, "All widths by loss"). Two rounds of passes over the
/// tokens are needed. The first may run within a pass of the caller; the second sees a sample of
/// the windows if there are many. Entries of the journal are not computed again. From the first
/// round until forget() the journal holds the sums or the bases of all junctions. References
/// outlive the object.
class JunctionLossIncreases {
 public:
  JunctionLossIncreases(Communicator& comm, const CalibrationJob& dense, const ResolvedJob& job,
                        const CalibrationObserver& observer, PhaseClock& clock);

  /// Begins the first round within a pass of the caller, which must visit all microbatches or none.
  /// Its after_pass() must be called, and may be called again.
  DenseRound dense_round();
  /// Runs the first round in passes of its own, if it has not run yet. Collective.
  void keep_junctions();

  /// Returns true if the metric of this rank's junction is in the journal, or will be after a dense
  /// round.
  bool has_metric(int64_t junction);
  /// Returns L [d, d] on the device, from the job's windows and those of extend_metrics().
  at::Tensor metric(int64_t junction) const;
  /// Adds the gradients of more windows [samples, seqlen] int64, with these numbers, to the metrics
  /// of this rank's `junctions` that have one. Makes a pass over these windows alone. Collective.
  void extend_metrics(const at::Tensor& windows, const std::vector<int64_t>& numbers,
                      const std::vector<int64_t>& junctions);

  /// Completes `loss_increases`, which has the parts of MLPs and value heads. The result is the
  /// same on every rank, for any number of ranks. Collective.
  void measure(PredictedLossIncreases& loss_increases);
  /// Removes bases and sums from the journal, unless they are kept for other jobs.
  void forget();

 private:
  bool lacks_loss_increases(int64_t junction) const;
  /// Returns true if the shortcut to the junction still lacks a prediction.
  bool lacks_ranks(int64_t junction) const;
  /// Returns this rank's junctions whose first round is missing.
  std::vector<int64_t> pending() const;
  void keep(JunctionGroup& group);
  void keep_token_loss_increases();
  /// Predicts the loss increase at the ranks of all shortcuts, between the widths that would be
  /// chosen without this prediction.
  void write_ranks(const PredictedLossIncreases& loss_increases);
  /// Reads the entry onto the device.
  std::map<std::string, at::Tensor> load(const std::string& entry) const;
  /// Windows of the second round.
  at::Tensor sampled_windows() const;
  /// Reads the basis of the junction's map, or that of the shared map.
  MetricBasis basis(int64_t junction) const;
  /// Reads a sum of the entry, mirrored and divided by the number of tokens.
  at::Tensor mean(const std::string& entry, const char* name) const;
  /// Returns the predicted loss increase of the junction at each pair of widths.
  at::Tensor loss_increases_of(int64_t junction) const;

  Communicator& comm_;
  const CalibrationJob& dense_;
  const ResolvedJob& job_;
  const CalibrationObserver& observer_;
  std::vector<int64_t> widths_;
  Journal& kept_;  ///< holds all entries except ranks of shortcuts and extended metrics
  PhaseClock& clock_;
  PipelinePasses passes_;
  std::vector<int64_t> mine_;
  bool has_first_;        ///< true if this rank has junction 0
  bool shared_;           ///< true if one map is shared by all junctions
  JunctionGroup beside_;  ///< used during a dense round
};

}  // namespace dotresize
