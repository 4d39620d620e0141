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

/// Sums that sublayers are cut with.
struct CutSums {
  /// Passes over the tokens, one after the other.
  std::vector<TokenRound> rounds;
  /// Further passes for the sublayers in `kept`, in place of `rounds`. If there are none, the kept
  /// sums stay; else they are used up.
  std::vector<TokenRound> rounds_of_kept = {};
  /// Sums of this rank's sublayers, on the host, over the first of `rounds`. Null: none.
  std::vector<SublayerSums>* kept = nullptr;
  /// Journal with the curves and gradients of an allocation. Null: gradients are those of `rounds`.
  const Journal* curves = nullptr;
  std::vector<EntryKind> gradients = {};  ///< entries of `curves` that are added up
  bool known_order = false;               ///< features go in the order of the curve
  int64_t tokens = 0;                     ///< tokens in all sums
  /// True if sublayers are cut only for the trial of an allocation. The journal keeps these cuts
  /// beside those of the output.
  bool for_trial = false;
};

// Tensors of a journal's entries that are not those of the checkpoint.
inline constexpr char kLossIncrease[] = "predicted_rise";  ///< [cut matrices] float64
inline constexpr char kSeenTokens[] = "tokens";            ///< [cut matrices] int64
/// [possible widths] float64, summed over experts
inline constexpr char kLossIncreases[] = "rises";

/// Sum of the gradients behind a sublayer: Σ gᵀg [d, d].
inline constexpr char kGradientSum[] = "gradients";

/// Computes the cut of a sublayer from its sums.
class SublayerCutter {
 public:
  /// References outlive the object.
  SublayerCutter(const CalibrationJob& job, const CutSums& from) : job_(job), from_(from) {}

  /// Returns the predicted loss increase at each of these widths, widest first, and the order in
  /// which features go. Frees the sums.
  std::map<std::string, at::Tensor> curve(SublayerSums& sums,
                                          const std::vector<int64_t>& widths) const;
  /// Returns the tensors that change, by their names in the checkpoint, with kLossIncrease and
  /// kSeenTokens, on the CPU. Computed tensors have the fold dtype; selected rows keep the dtype of
  /// the source. Frees the sums.
  std::map<std::string, at::Tensor> cut(SublayerSums& sums, int64_t width) const;

 private:
  bool has_order(int64_t sublayer) const { return from_.known_order && !is_attention(sublayer); }
  /// Returns L of the junction that the sublayer writes.
  at::Tensor metric(SublayerSums& sums) const;
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
  const CutSums& from_;
};

}  // namespace dotresize
