#pragma once

#include <cstddef>

#include "job/model/model_config.h"
#include "job/plan/allocate/joint_allocation.h"
#include "job/plan/resolved_job.h"

namespace dotresize {

/// Index in possible_widths(). Predictions hold for small changes: no junction gets less than two
/// thirds of the width that all would have if parameters went with it, but for rounding down.
std::size_t least_allocated_width(const ResolvedJob& job);

/// allocate_jointly() of junctions that have maps of their own. `rises` are complete and finite.
Allocation search_allocation(const ModelConfig& config, const ResolvedJob& job,
                             const PredictedRises& rises);

}  // namespace dotresize
