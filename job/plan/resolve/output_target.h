#pragma once

#include "dotresize/v1/job.pb.h"
#include "job/plan/resolved_job.h"

namespace dotresize {

/// Sets what the job file says about its output, but for the architecture.
OutputTarget output_target(const v1::Output& given, const ModelConfig& config);

/// Refuses an output that could replace what it is made from. Links are resolved first. Throws
/// InputError naming the key.
void check_output_is_apart(const ResolvedJob& job);

}  // namespace dotresize
