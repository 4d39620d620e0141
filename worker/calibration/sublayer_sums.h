#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <vector>

#include "base/phase_clock.h"
#include "worker/calibration/calibration_job.h"
#include "worker/calibration/junction_groups.h"
#include "worker/comm/communicator.h"
#include "worker/maps/moments.h"
#include "worker/transformer/rotary.h"
#include "worker/transformer/stage/microbatches.h"
#include "worker/transformer/stage/stage.h"

namespace dotresize {

/// Sums of one sublayer over all tokens.
struct SublayerSums {
  int64_t sublayer = 0;
  /// Inputs of out_proj: of the MLP, of each expert, or of the attention.
  std::vector<Moments> features;
  std::vector<int64_t> tokens;  ///< number of tokens seen by each of these
  /// Gradients behind the sublayer, in the metric of the loss. Empty if not summed.
  std::optional<Moments> gradients;

  /// Returns a copy on the host or on the device that shares no memory with these sums.
  SublayerSums copied(bool to_host) const;
};

/// Windows that are added to the sums in one pass.
struct TokenRound {
  at::Tensor windows;            ///< [samples, seqlen] int64
  std::vector<int64_t> numbers;  ///< numbers of the windows, as in label_gradient()
  bool gradients = false;        ///< true: the pass goes back, and gradients are summed too
};

/// Sums over the calibration tokens at the sublayers of the dense model. References outlive the
/// object.
class SublayerPasses {
 public:
  SublayerPasses(Communicator& comm, const CalibrationJob& job, const CalibrationObserver& observer,
                 PhaseClock& clock);

  /// Sums the gradients behind all of these sublayers of this rank's stage in one pass, and passes
  /// them to `visit`. Collective.
  void gradients(const std::vector<int64_t>& sublayers, const TokenRound& round,
                 const std::function<void(int64_t sublayer, Moments)>& visit);
  /// Sums at these sublayers of this rank's stage, as many at a time as there is memory for, over
  /// the windows of all rounds, and passes each to `visit`. Packed sums are passed on the host.
  /// `begun`: returns the sums to go on with, or nothing. Rounds are the same on every rank.
  /// Collective.
  void in_stages(const std::vector<int64_t>& sublayers, const std::vector<TokenRound>& rounds,
                 const std::function<std::optional<SublayerSums>(int64_t sublayer)>& begun,
                 const std::function<void(SublayerSums)>& visit);
  /// Sums at the `wanted` MLPs over the tokens that the ranks share, and passes each to `visit` at
  /// the rank whose turn it is. The sums do not depend on the number of ranks. Collective.
  void over_ranks(const std::set<int64_t>& wanted, const std::function<void(SublayerSums)>& visit);

 private:
  /// Returns empty sums. `bounds`: bounds of each MLP's sums if ranks add them up, else empty.
  SublayerSums no_sums(int64_t sublayer, const std::vector<SumBounds>& bounds = {}) const;
  void add_features(SublayerSums& sums, int64_t mlp, const at::Tensor& h) const;
  Moments no_gradients() const;
  void sum(std::vector<SublayerSums>& group, const TokenRound& round);
  void add_gradient(Moments& sums, int64_t junction, const at::Tensor& g) const;
  /// Returns the bounds of the features over all ranks' tokens.
  std::vector<SumBounds> bounds_of(const SublayerWeights& weights, const LayerContext& context,
                                   const Microbatches& x) const;

  Communicator& comm_;
  const CalibrationJob& job_;
  const CalibrationObserver& observer_;
  PhaseClock& clock_;
  PipelinePasses passes_;
};

}  // namespace dotresize
