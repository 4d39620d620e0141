#pragma once

#include <string>

#include "job/model/model_config.h"
#include "job/plan/resolved_job.h"
#include "job/plan/shard_plan.h"

namespace dotresize {

/// What a job would do, for people: its target and the nominal width, what each rank holds, the net
/// size of the result, and a line that starts with "warning:" if the result would not be
/// smaller. If energy decides the widths, of the size only what was asked for. Lines without a
/// last newline.
std::string plan_table(const ModelConfig& config, const ResolvedJob& job, const ShardPlan& plan);

/// The same as a JSON document: {"schema_version": 1, "ranks": [...], "dense":
/// {...}, "compressed": {...}, "ratio": compressed/dense parameters, "warnings": [...]}
/// (docs/cli.md).
std::string plan_to_json(const ModelConfig& config, const ResolvedJob& job, const ShardPlan& plan);

}  // namespace dotresize
