#pragma once

#include <cstddef>

#include "job/model/model_config.h"
#include "job/plan/allocate/allocation.h"
#include "job/plan/resolved_job.h"

namespace dotresize {

/// Index in possible_widths() of the smallest width that an allocation chooses, because predictions
/// hold for small changes only. It is two thirds of the width that all junctions would have if
/// parameters were proportional to the width, rounded down.
std::size_t least_allocated_width(const ResolvedJob& job);

/// Version of allocate_jointly() for junctions that have maps of their own. `loss_increases` must
/// be complete and finite.
Allocation search_allocation(const ModelConfig& config, const ResolvedJob& job,
                             const PredictedLossIncreases& loss_increases);

}  // namespace dotresize
