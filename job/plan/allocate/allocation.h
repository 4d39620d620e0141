#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "job/model/model_config.h"
#include "job/model/units/unit.h"
#include "job/plan/resolved_job.h"

namespace dotresize {

// `method.allocate: auto` (docs/method.md, "All sizes by loss"): chooses the sizes of all units
// together. The predicted loss increase is the smallest within the net size.

/// Predicted loss increases of a sublayer that may be cut.
struct SublayerCurve {
  int64_t sublayer = 0;
  std::vector<double> loss_increases;  ///< at each of choices(); finite, 0 or more
};

/// Size that is chosen for a sublayer.
struct ChosenSize {
  int64_t sublayer = 0;
  const Unit* unit = nullptr;
  int64_t size = 0;
  double predicted_loss_increase = 0.0;
};

/// Chosen sizes of all sublayers that may be cut, in the order of the sublayers.
struct Allocation {
  std::vector<ChosenSize> chosen;

  /// Sum of all predicted increases: the KL divergence of a token from the dense model's
  /// prediction.
  double predicted_loss_increase() const;
  /// The choices of attentions, or of MLPs.
  std::vector<ChosenSize> in(bool attentions) const;
};

/// Returns the sum of the predicted increases.
double predicted_loss_increase(const std::vector<ChosenSize>& chosen);

/// Returns the bytes of the output with the smallest size of each sublayer that may be cut.
int64_t fewest_bytes(const ModelConfig& config, const ResolvedJob& job);

/// Returns a warning if the layers would keep so small a part of their bytes that published models
/// have lost most of what they knew at it. Else empty.
std::string allocation_warning(const ModelConfig& config, const ResolvedJob& job);

/// Chooses the sizes with the smallest predicted loss increase, among those whose output has a net
/// size within job.target.allocation->size. All MLPs of a stock output keep equally many features,
/// and so do all experts.
/// `curves` has one curve for each sublayer that may be cut, in their order. Deterministic. Throws
/// std::invalid_argument if the curves do not match the model or if no sizes meet the target.
Allocation allocate(const ModelConfig& config, const ResolvedJob& job,
                    const std::vector<SublayerCurve>& curves);

/// Returns the dense model with the chosen sizes. Its sublayers are to be cut to these.
ModelConfig with_chosen_sizes(const ModelConfig& config, const ResolvedJob& job,
                              const Allocation& allocation);

}  // namespace dotresize
