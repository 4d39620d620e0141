#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "worker/calibration/calibration.h"
#include "worker/calibration/sublayer_sums.h"

namespace dotresize {

/// State of an allocation that a cut uses.
struct AllocationSums {
  /// Returns true if the metric of this rank's junction is known, or will be after a DenseRound.
  std::function<bool(int64_t junction)> has_metric;
  std::function<at::Tensor(int64_t junction)> metric;  ///< L [d, d], on the device
  std::vector<SublayerSums> kept;  ///< sums of this rank's sublayers, on the host; may be empty
};

// Tensors of a journal's entries that are not those of the checkpoint.
inline constexpr char kLossIncrease[] = "predicted_rise";  ///< [cut matrices] float64
inline constexpr char kSeenTokens[] = "tokens";            ///< [cut matrices] int64
/// [possible widths] float64, summed over experts
inline constexpr char kLossIncreases[] = "rises";

/// Computes the cut of a sublayer from its sums.
class SublayerCutter {
 public:
  /// `allocation`: state of an allocation, else null. References outlive the object.
  SublayerCutter(const CalibrationJob& job, const AllocationSums* allocation)
      : job_(job), allocation_(allocation) {}

  /// Returns true if the cut needs the gradients behind the sublayer: in the metric of the loss,
  /// unless the metric is known, or the order in which features go.
  bool needs_gradients(int64_t sublayer) const;
  /// Returns the predicted loss increase at each of these widths, widest first, and the order in
  /// which features go. Frees the sums.
  std::map<std::string, at::Tensor> curve(SublayerSums& sums,
                                          const std::vector<int64_t>& widths) const;
  /// Returns the tensors that change, by their names in the checkpoint, with kLossIncrease and
  /// kSeenTokens, on the CPU. Computed tensors have the fold dtype; selected rows keep the dtype of
  /// the source. Frees the sums.
  std::map<std::string, at::Tensor> cut(SublayerSums& sums, int64_t width) const;

 private:
  /// Returns true if an allocation's first round has found the order in which features go.
  bool has_order(int64_t sublayer) const;
  /// Calls visit(E[hᵀh], out_proj, L) for the attention, the MLP, or each expert, and frees the
  /// sums. L is undefined if the metric is the identity, or if the order is known.
  void for_each_out_proj(
      SublayerSums& sums,
      const std::function<void(at::Tensor, const at::Tensor&, const at::Tensor&)>& visit) const;
  // Return the changed tensors, and append the predicted loss increase of each matrix to
  // `loss_increases`: of an MLP or all experts of a mixture; of an attention v (or the matrix it is
  // fused into) and o. `known_order`: order in which features go, whose loss increase is known;
  // undefined: computed from the sums.
  std::map<std::string, at::Tensor> cut_features(SublayerSums& sums, int64_t width,
                                                 const at::Tensor& known_order,
                                                 std::vector<double>& loss_increases) const;
  std::map<std::string, at::Tensor> cut_values(SublayerSums& sums, int64_t width,
                                               std::vector<double>& loss_increases) const;

  const CalibrationJob& job_;
  const AllocationSums* allocation_;
};

}  // namespace dotresize
