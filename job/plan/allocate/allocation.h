#pragma once

#include <cstdint>
#include <vector>

#include "job/model/model_config.h"
#include "job/plan/resolved_job.h"

namespace dotresize {

// `method.allocate: auto` (docs/method.md, "All sizes by loss"): chooses the features of all MLPs
// and the channels of all value heads together. The predicted loss increase is the smallest within
// the net size.

/// Predicted loss increases of a sublayer that may be cut.
struct SublayerCurve {
  int64_t sublayer = 0;
  std::vector<double> loss_increases;  ///< at each of possible_inner_widths(); finite, 0 or more
};

/// Inner width that is chosen for a sublayer.
struct ChosenWidth {
  int64_t sublayer = 0;
  int64_t width = 0;
  double predicted_loss_increase = 0.0;
};

/// Chosen widths of all sublayers that may be cut, in the order of the sublayers.
struct Allocation {
  std::vector<ChosenWidth> chosen;

  /// Sum of all predicted increases: the KL divergence of a token from the dense model's
  /// prediction.
  double predicted_loss_increase() const;
  /// The choices for attentions, or those for MLPs.
  std::vector<ChosenWidth> of_attentions() const;
  std::vector<ChosenWidth> of_mlps() const;
};

/// Returns the widths alone.
std::vector<int64_t> widths_of(const std::vector<ChosenWidth>& chosen);
/// Returns the sum of the predicted increases.
double predicted_loss_increase(const std::vector<ChosenWidth>& chosen);

/// Checks the size before any activation is seen. Throws InputError naming method.size if even the
/// smallest widths do not meet it.
void check_allocation_target(const ModelConfig& config, const ResolvedJob& job);

/// Chooses the widths with the smallest predicted loss increase, among those whose output has a net
/// size within job.target.allocation->size. All MLPs of a stock output keep equally many features.
/// `curves` has one curve for each sublayer that may be cut, in their order. Deterministic. Throws
/// std::invalid_argument if the curves do not match the model or if no widths meet the size.
Allocation allocate(const ModelConfig& config, const ResolvedJob& job,
                    const std::vector<SublayerCurve>& curves);

/// Returns the dense model with the chosen widths. Its sublayers are to be cut to these.
ModelConfig with_chosen_widths(const ModelConfig& config, const ResolvedJob& job,
                               const Allocation& allocation);

}  // namespace dotresize
