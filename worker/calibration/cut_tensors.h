#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "job/plan/allocate/choices.h"
#include "worker/calibration/calibration_job.h"
#include "worker/calibration/sublayer_sums.h"
#include "worker/calibration/units/unit_cut.h"

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
  bool known_order = false;               ///< parts go in the order of the curve, if it has one
  int64_t tokens = 0;                     ///< tokens in all sums
  /// True if sublayers are cut only for the trial of an allocation. The journal keeps these cuts
  /// beside those of the output.
  bool for_trial = false;
};

// Tensors of a journal's entries that are not those of the checkpoint.
inline constexpr char kLossIncrease[] = "predicted_rise";  ///< [cut matrices] float64
inline constexpr char kSeenTokens[] = "tokens";            ///< [cut matrices] int64
/// [choices] float64, summed over experts
inline constexpr char kLossIncreases[] = "rises";

/// Sum of the gradients behind a sublayer: Σ gᵀg [d, d]. Sums in float32 are stored in float32.
inline constexpr char kGradientSum[] = "gradients";
at::ScalarType gradients_dtype(const CalibrationJob& job);

/// Returns the loss increase at each of the choices from a curve (SublayerCutter::curve), which may
/// be of statistics. Throws InputError if the curve is of other choices.
std::vector<double> kept_curve(const Journal& curves, int64_t sublayer,
                               const std::vector<Choice>& choices);

/// Computes the cut of a sublayer from its sums.
class SublayerCutter {
 public:
  /// References outlive the object.
  SublayerCutter(const CalibrationJob& job, const CutSums& from) : job_(job), from_(from) {}

  /// Returns the predicted loss increase at each of these choices (job/plan/allocate/choices.h),
  /// and the order in which the parts of the main unit go. Frees the sums.
  std::map<std::string, at::Tensor> curve(SublayerSums& sums,
                                          const std::vector<Choice>& choices) const;
  /// Returns the tensors that change (UnitCut), with kLossIncrease and kSeenTokens. Frees the sums.
  std::map<std::string, at::Tensor> cut(SublayerSums& sums, const Choice& choice) const;

 private:
  /// Returns L of the junction that the sublayer writes.
  at::Tensor metric(SublayerSums& sums) const;
  /// Returns the matrices of the sublayer. `with_metric`: they need L, if the job has a metric.
  CutSublayer sublayer(SublayerSums& sums, bool with_metric) const;

  const CalibrationJob& job_;
  const CutSums& from_;
};

}  // namespace dotresize
