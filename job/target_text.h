#pragma once

#include <string>

#include "job/resolved_job.h"

namespace dotresize {

/// The job's target, as in the job file: "sparsity 0.2", "width 200", "size 0.8" or "widths from
/// energy, keep 0.99, size 0.8".
std::string target_text(const ResolvedJob& job);

/// What came of it: "width 176 of 256", or the range of widths that energy gave.
std::string widths_text(const ResolvedJob& job);

}  // namespace dotresize
