#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "job/model/model_config.h"
#include "job/plan/allocate/junction_widths.h"
#include "job/plan/resolved_job.h"

namespace dotresize {

// `method.allocate: auto` (docs/method.md, "All widths by loss"): the widths of all junctions, the
// features of all MLPs and the channels of all value heads together, such that the loss is
// predicted to rise least within the net size.

/// By how much the loss of a token is predicted to rise. All are finite and 0 or more.
struct PredictedRises {
  /// Of each mapped junction, at G = possible_widths() of them: [G * G], row by row. Row i is for
  /// the i-th of these widths at the junction before, column j for the j-th at this one. With one
  /// map for the model the diagonal alone counts. All rows of junction 0 are the same.
  std::vector<std::vector<double>> junctions;
  /// [L] of each layer's MLP, or of all its experts, at each of possible_mlp_widths().
  std::vector<std::vector<double>> mlps;
  /// [L] of each layer's value heads, at each of possible_value_dims(). Not read of a stock output.
  std::vector<std::vector<double>> values = {};
  /// [2L] of each sublayer's shortcut, if it is cut to each of possible_shortcut_ranks(). Empty of
  /// a sublayer without a prediction, or of all: they get planned_shortcut_rank(). Not read of a
  /// stock output.
  std::vector<std::vector<double>> shortcuts = {};
};

/// What is chosen.
struct Allocation {
  JunctionWidths widths;
  std::vector<int64_t> features;  ///< [L] of the layer's MLP, or of each of its experts
  /// [L] channels of each of the layer's value heads. Empty of a stock output.
  std::vector<int64_t> values = {};
  std::vector<int64_t> shortcut_ranks = {};  ///< [2L] likewise: at most, of each sublayer
  // Predicted: of each mapped junction, of each layer's MLP and its value heads, of each shortcut.
  std::vector<double> junction_rises = {};
  std::vector<double> mlp_rises = {};
  std::vector<double> value_rises = {};
  std::vector<double> shortcut_rises = {};

  /// Of all of them together: the KL divergence of a token from the dense model's.
  double predicted_rise() const;
};

/// How many times as far as predicted an output may be from the dense model without a warning, and
/// without a choice of other sizes.
inline constexpr double kMostOverPredicted = 2.0;

/// Of shortcuts of which nothing is predicted: hidden_size / 32, rounded up.
int64_t planned_shortcut_rank(int64_t hidden_size);

/// Refuses, before any activation is seen, a size that not even the smallest widths have.
/// Throws InputError naming method.size.
void check_allocation_target(const ModelConfig& config, const ResolvedJob& job);

/// What is predicted to raise the loss least, of all of which the output's net size is within
/// job.allocation->size. `config` is the dense model's. Along the junctions it is a shortest path:
/// a sublayer's bytes depend on the widths at its ends, on its shortcut and on what it has inside
/// alone. So for each
/// price of a parameter the best choice of all is found, and the price by bisection; what is left
/// of the size then widens single parts. With one map for the model all of its widths and features
/// are tried. Deterministic. Throws std::invalid_argument for rises that are not as many.
Allocation allocate_jointly(const ModelConfig& config, const ResolvedJob& job,
                            const PredictedRises& rises);

/// Likewise without a map: every junction keeps hidden_size, only MLPs and value heads become
/// narrower; rises.junctions and rises.shortcuts are not read. Nothing if the narrowest have more
/// bytes than there may be.
std::optional<Allocation> allocate_without_maps(const ModelConfig& config, const ResolvedJob& job,
                                                const PredictedRises& rises);

/// The job with the widths that were chosen; and the dense model with so many features and channels
/// of value heads, as which its sublayers are to be cut.
ResolvedJob with_allocation(const ResolvedJob& job, const ModelConfig& config,
                            const Allocation& chosen);
ModelConfig with_features(const ModelConfig& config, const ResolvedJob& job,
                          const Allocation& chosen);

}  // namespace dotresize
