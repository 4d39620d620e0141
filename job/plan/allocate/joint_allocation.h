#pragma once

#include <optional>

#include "job/model/model_config.h"
#include "job/plan/allocate/allocation.h"
#include "job/plan/resolved_job.h"

namespace dotresize {

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
/// a parameter, and the price is found by bisection. The remaining size then widens single parts.
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

}  // namespace dotresize
