#pragma once

#include <cstddef>
#include <cstdint>
#include <numeric>
#include <optional>
#include <vector>

#include "job/model/model_config.h"
#include "job/plan/allocate/junction_widths.h"
#include "job/plan/resolved_job.h"

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
  /// for a sublayer without a prediction, or for all: they get Shortcuts::rank. Not read for a
  /// stock output.
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

// `method.allocate: auto` (docs/method.md, "All widths by loss"): chooses the widths of all
// junctions, the features of all MLPs and the channels of all value heads together. The predicted
// loss increase is the smallest within the net size.

/// Checks the size before any activation is seen. Throws InputError naming method.size if even the
/// smallest widths do not meet it.
void check_allocation_target(const ModelConfig& config, const ResolvedJob& job);

/// Chooses the sizes with the smallest predicted loss increase, among those whose output has a net
/// size within job.allocation->size. `config` is the dense model's.
/// Along the junctions this is a shortest path: the bytes of a sublayer depend only on the widths
/// at its ends, on its shortcut and on its inner width. The best choice is found for each price of
/// a byte, and the price is found by bisection. The remaining size then widens single parts.
/// With one map for the model all of its widths and features are tried. Deterministic. Throws
/// std::invalid_argument if the number of loss increases does not match the model.
Allocation allocate_jointly(const ModelConfig& config, const ResolvedJob& job,
                            const PredictedLossIncreases& loss_increases);

/// Version of allocate_jointly without a map: every junction keeps hidden_size, and only MLPs and
/// value heads become narrower. Does not read loss_increases.junctions and
/// loss_increases.shortcuts. Returns nullopt if the narrowest choice exceeds the size.
std::optional<Allocation> allocate_without_maps(const ModelConfig& config, const ResolvedJob& job,
                                                const PredictedLossIncreases& loss_increases);

/// Returns the job with the chosen widths.
ResolvedJob with_allocation(const ResolvedJob& job, const ModelConfig& config,
                            const Allocation& chosen);
/// Returns the dense model with the chosen numbers of features and of value head channels. Its
/// sublayers are to be cut to these.
ModelConfig with_features(const ModelConfig& config, const ResolvedJob& job,
                          const Allocation& chosen);

// Parts of allocate_jointly (allocation_search.cpp).

/// Index in possible_widths() of the smallest width that an allocation chooses, because predictions
/// hold for small changes only. It is two thirds of the width that all junctions would have if
/// bytes were proportional to the width, rounded down.
std::size_t least_allocated_width(const ModelConfig& config, const ResolvedJob& job);

/// Version of allocate_jointly() for junctions that have maps of their own. `loss_increases` must
/// be complete and finite.
Allocation search_allocation(const ModelConfig& config, const ResolvedJob& job,
                             const PredictedLossIncreases& loss_increases);

}  // namespace dotresize
