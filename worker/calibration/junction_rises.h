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
#include "worker/comm/communicator.h"
#include "worker/maps/predicted_rise.h"

namespace dotresize {

/// What the maps of the dense model's junctions, and the ranks of the shortcuts between them, are
/// predicted to add to the loss (docs/method.md, "All widths by loss"): two rounds of passes over
/// the tokens, of which the first may be part of another's pass (begin to end), and the second sees
/// a part of many. What is in the journal is not computed again. From the first round until
/// forget() the journal has the sums or the bases of all junctions. References outlive the object.
class JunctionRises {
 public:
  JunctionRises(Communicator& comm, const CalibrationJob& dense, const ResolvedJob& job,
                const CalibrationObserver& observer, PhaseClock& clock);

  // The first round within a pass of somebody else's, of which this sees all microbatches, or none.
  void begin();
  void see_state(int64_t junction, const at::Tensor& x);
  void see_gradient(int64_t junction, const at::Tensor& g);
  void end();

  /// The first round in passes of its own, if it has not been. Collective.
  void keep_junctions();

  /// Whether the metric of a junction of this rank is in the journal, or will be after end().
  bool has_metric(int64_t junction);
  /// L [d, d] on the device: of the job's windows, and of those of extend_metrics().
  at::Tensor metric(int64_t junction) const;
  /// Adds the gradients of more windows, [samples, seqlen] int64 with their numbers, to the metrics
  /// of those of this rank's `junctions` that have one: a pass over these alone. Collective.
  void extend_metrics(const at::Tensor& windows, const std::vector<int64_t>& numbers,
                      const std::vector<int64_t>& junctions);

  /// Completes `rises`, which has those of MLPs and value heads. The same on every rank, whatever
  /// their number. Collective.
  void measure(PredictedRises& rises);
  /// Removes bases and sums from the journal, unless they are kept for other jobs.
  void forget();

 private:
  bool shared() const { return !dense_.sharing.empty(); }
  /// Whether this rank has junction 0.
  bool has_first() const { return !mine_.empty() && mine_.front() == 0; }
  bool lacks_rises(int64_t junction) const;
  /// Whether the shortcut to the junction needs a prediction that is not there.
  bool lacks_ranks(int64_t junction) const;
  bool lacks_any(int64_t junction) const { return lacks_rises(junction) || lacks_ranks(junction); }
  /// This rank's junctions whose first round is missing.
  std::vector<int64_t> pending() const;
  void keep(JunctionGroup& group);
  void keep_shared_basis();
  void keep_token_rises();
  void write_rises();
  std::vector<std::vector<double>> read_rises() const;
  /// Predicts the ranks of all shortcuts between the widths that would be chosen without them.
  void write_ranks(const PredictedRises& rises);
  std::vector<std::vector<double>> read_ranks() const;
  JunctionSetup setup(int64_t junction) const {
    return {junction, dense_.config.hidden_size, dense_.map, clock_, dense_.device};
  }
  /// Reads the entry onto the device.
  std::map<std::string, at::Tensor> load(const std::string& entry) const;
  MetricBasis basis(const std::string& entry) const;
  /// Those of the second round.
  at::Tensor sampled_windows() const;
  MetricBasis basis(int64_t junction) const;
  /// Mirrored, of a token.
  at::Tensor mean(const std::string& entry, const char* name) const;
  at::Tensor rises(int64_t junction) const;
  /// What the sums of the whole stream say, as if nothing were gone before.
  at::Tensor rises_of_all(int64_t junction) const;
  at::Tensor shared_rises(int64_t junction) const;
  int64_t grid() const { return std::ssize(widths_); }

  Communicator& comm_;
  const CalibrationJob& dense_;
  const ResolvedJob& job_;
  const CalibrationObserver& observer_;
  std::vector<int64_t> widths_;
  Journal& kept_;  ///< has all but the ranks of shortcuts
  PhaseClock& clock_;
  PipelinePasses passes_;
  std::vector<int64_t> mine_;
  JunctionGroup beside_;  ///< between begin and end
};

}  // namespace dotresize
