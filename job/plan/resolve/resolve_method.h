#pragma once

#include "dotresize/v1/job.pb.h"
#include "job/plan/resolved_job.h"

namespace dotresize {

/// Sets the method of the job, its maps, its widths or what decides them, and the family of its
/// output. `job.output` must be set. Throws InputError naming the key if the model cannot have
/// them.
void resolve_method(const v1::JobSpec& spec, const ModelConfig& config, ResolvedJob& job);

/// Method of a spec whose defaults are set (complete_method). An allocation has none: it makes no
/// maps, and what it counts as takes one pass over the tokens.
const Method& method_of(const v1::Method& completed);

}  // namespace dotresize
