#pragma once

#include <string>

#include "job/plan/resolved_job.h"

namespace dotresize {

/// The job's target, as in the job file: "sparsity 0.2", "width 200", "size 0.8" or "widths from
/// energy, keep 0.99, size 0.8".
std::string target_text(const ResolvedJob& job);

/// The mapped junctions' width, "176", or the range that energy gave, "96 to 216".
std::string width_range(const JunctionWidths& widths);

/// What came of the target: "width 176 of 256", or "widths 96 to 216 of 256".
std::string widths_text(const JunctionWidths& widths, int64_t hidden_size);

}  // namespace dotresize
