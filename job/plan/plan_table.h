#pragma once

#include <optional>
#include <string>

#include "job/plan/estimate/estimates.h"
#include "job/plan/job_plan.h"

namespace dotresize {

/// Text of the job's target: "sparsity 0.2", "width 200" or "size 0.8".
std::string target_text(const ResolvedJob& job);

/// Width of the mapped junctions, "176", or the range of allocated widths, "96 to 216".
std::string width_range(int64_t least, int64_t largest);
/// The same of the resulting widths, "176 of 256" or "96 to 216 of 256".
std::string width_text(const JunctionWidths& widths, int64_t hidden_size);

/// Plan of a job as text: its target and nominal width, what each rank holds, and the net size of
/// the result. A line that starts with "warning:" follows if the result would not be smaller. If
/// the loss decides the widths, only the requested size is shown. With `time` the text includes the
/// time that the job takes. There is no newline at the end.
std::string plan_table(const JobPlan& plan, const std::optional<TimeEstimate>& time = {});

/// JSON version of plan_table: {"schema_version": 1, "ranks": [...], "dense": {...}, "compressed":
/// {...}, "ratio": compressed/dense parameters, "warnings": [...]}. With `time` it also has
/// "seconds" (docs/cli.md).
std::string plan_to_json(const JobPlan& plan, const std::optional<TimeEstimate>& time = {});

/// Table for people: the total, then phase, seconds and share. There is no newline at the end.
std::string time_table(const TimeEstimate& time);

}  // namespace dotresize
