#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "job/model/units/unit.h"
#include "worker/calibration/calibration_job.h"
#include "worker/calibration/storage/entries.h"

namespace dotresize {

/// One matrix out_proj that is cut, with the sums of what it reads.
struct CutMatrix {
  at::Tensor gram;    ///< E[hᵀh] of its inputs, float64; consumed
  at::Tensor weight;  ///< [d, inputs] float64
  /// L of the metric F = L·Lᵀ behind the sublayer. Undefined: the identity, or the order is known.
  at::Tensor metric;
};

/// Sublayer that is cut.
struct CutSublayer {
  const CalibrationJob& job;
  int64_t sublayer;
  /// Calls visit(matrix) for the attention, the MLP, or each expert, and frees the sums.
  std::function<void(const std::function<void(CutMatrix)>& visit)> for_each_matrix;
};

/// Computes the cuts of a unit from the sums of its sublayer.
struct UnitCut {
  const Unit* unit = nullptr;
  EntryKind entry;        ///< entries S-W of the journal: a cut of sublayer S to size W
  EntryKind trial_entry;  ///< the same, for the trial of an allocation alone
  /// Adds the predicted loss increase of the matrix at each of `sizes`, largest first, to
  /// `loss_increases`. Returns the order in which the parts go, if a cut can be made from that and
  /// the sums; else an undefined tensor. Null: the unit is whole matrices (expert_curve).
  at::Tensor (*add_curve)(const CutSublayer& from, CutMatrix matrix,
                          const std::vector<int64_t>& sizes,
                          std::vector<double>& loss_increases) = nullptr;
  /// Returns the changed tensors by their names in the checkpoint, on the CPU. Computed ones have
  /// the fold dtype; selected rows keep the dtype of the source. Appends the predicted loss
  /// increase of each matrix to `loss_increases`. `order`: the orders of all matrices, stacked,
  /// whose loss increase is known; undefined: computed from the sums.
  std::map<std::string, at::Tensor> (*cut)(const CutSublayer& from, int64_t size,
                                           const at::Tensor& order,
                                           std::vector<double>& loss_increases) = nullptr;
};

/// Returns the predicted loss increase of a token if the expert is removed, tr(F W H Wᵀ): twice
/// that of zeros in its place, because the expert that its tokens choose instead adds an error as
/// large.
double cost_of_expert(const CutMatrix& matrix);

/// Returns the predicted loss increase at each of `sizes`, numbers of experts. `costs`: that of the
/// removal of each expert.
std::vector<double> expert_curve(const MixtureSpec& mixture, const std::vector<double>& costs,
                                 const std::vector<int64_t>& sizes);

extern const UnitCut kExpertsCut;
extern const UnitCut kFeaturesCut;
extern const UnitCut kValueChannelsCut;

inline constexpr std::array kUnitCuts = {&kFeaturesCut, &kExpertsCut, &kValueChannelsCut};

/// Throws std::logic_error if the unit has none.
const UnitCut& cut_of(const Unit& unit);

}  // namespace dotresize
