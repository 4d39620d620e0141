#pragma once

#include <cstdint>
#include <numeric>
#include <vector>

#include "job/plan/allocate/junction_widths.h"

namespace dotresize {

/// Predicted increases of the loss of a token. All are finite and 0 or more.
struct PredictedLossIncreases {
  /// [G * G] for each mapped junction, row by row, where G is the number of possible_widths(). Row
  /// i is for the i-th of these widths at the junction before, column j for the j-th at this one.
  /// With one map for the model only the diagonal counts. All rows of junction 0 are the same.
  std::vector<std::vector<double>> junctions;
  /// [L] increases for each layer's MLP, or all its experts, at each of possible_inner_widths().
  std::vector<std::vector<double>> mlps;
  /// [L] increases for each layer's value heads, at each of possible_inner_widths(). Not read for a
  /// stock output.
  std::vector<std::vector<double>> values = {};
  /// [2L] increases if each sublayer's shortcut is cut to each of possible_shortcut_ranks(). Empty
  /// for a sublayer without a prediction, or for all: they get planned_shortcut_rank(). Not read
  /// for a stock output.
  std::vector<std::vector<double>> shortcuts = {};
};

/// Sizes that are chosen.
struct Allocation {
  JunctionWidths widths;
  std::vector<int64_t> features;  ///< [L] features of the layer's MLP, or of each of its experts
  /// [L] channels of each of the layer's value heads. Empty for a stock output.
  std::vector<int64_t> values = {};
  /// [2L] largest rank of each shortcut; empty for a stock output.
  std::vector<int64_t> shortcut_ranks = {};
  // Predicted loss increases: by mapped junction, by layer for the MLP and for the value heads, and
  // by sublayer for the shortcut.
  std::vector<double> junction_loss_increases = {};
  std::vector<double> mlp_loss_increases = {};
  std::vector<double> value_loss_increases = {};
  std::vector<double> shortcut_loss_increases = {};

  /// Sum of all predicted increases: the KL divergence of a token from the dense model's
  /// prediction.
  double predicted_loss_increase() const {
    double sum = 0.0;
    for (const auto* loss_increases : {&junction_loss_increases, &mlp_loss_increases,
                                       &value_loss_increases, &shortcut_loss_increases}) {
      sum = std::accumulate(loss_increases->begin(), loss_increases->end(), sum);
    }
    return sum;
  }
};

/// Largest ratio of an output's measured distance from the dense model to the predicted distance.
/// Above it there is a warning, and other sizes are chosen.
inline constexpr double kMostOverPredicted = 2.0;

/// Rank of shortcuts without a prediction: hidden_size / 32, rounded up.
inline int64_t planned_shortcut_rank(int64_t hidden_size) { return (hidden_size + 31) / 32; }

}  // namespace dotresize
