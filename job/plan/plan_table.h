#pragma once

#include <optional>
#include <string>

#include "job/model/model_config.h"
#include "job/plan/estimate/time_estimate.h"
#include "job/plan/resolved_job.h"
#include "job/plan/shard_plan.h"

namespace dotresize {

/// The job's target, as in the job file: "sparsity 0.2", "width 200" or "size 0.8".
std::string target_text(const ResolvedJob& job);

/// The mapped junctions' width, "176", or the range of allocated ones, "96 to 216".
std::string width_range(const JunctionWidths& widths);

/// What came of the target: "width 176 of 256", or "widths 96 to 216 of 256".
std::string widths_text(const JunctionWidths& widths, int64_t hidden_size);

/// What a job would do, for people: its target and the nominal width, what each rank holds, the net
/// size of the result, and a line that starts with "warning:" if the result would not be
/// smaller. If the loss decides the widths, of the size only what was asked for. With a
/// `time` how long it takes. Lines without a last newline.
std::string plan_table(const ModelConfig& config, const ResolvedJob& job, const ShardPlan& plan,
                       const std::optional<TimeEstimate>& time = {});

/// The same as a JSON document: {"schema_version": 1, "ranks": [...], "dense":
/// {...}, "compressed": {...}, "ratio": compressed/dense parameters, "warnings": [...]}
/// and with a `time` "seconds" (docs/cli.md).
std::string plan_to_json(const ModelConfig& config, const ResolvedJob& job, const ShardPlan& plan,
                         const std::optional<TimeEstimate>& time = {});

}  // namespace dotresize
