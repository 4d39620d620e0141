#pragma once

#include <optional>

#include "base/files/confinement.h"
#include "job/plan/job_plan.h"
#include "job/plan/resolve/job_resources.h"

namespace dotresize {

/// Resolves the job and takes the first schedule that fits its budgets, with its shards: the
/// preferred one, unless it needs many groups of junctions, or that of the interrupted run whose
/// maps the job continues with (`launch->schedule`). Throws InputError naming the key, as
/// resolve_job does, and if no schedule fits.
JobPlan plan_job(const v1::JobSpec& spec, const ModelConfig& config,
                 const std::optional<LaunchFacts>& launch = {},
                 const Confinement& confinement = Confinement::of_process());

}  // namespace dotresize
