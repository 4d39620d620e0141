#pragma once

#include "server/job_store.h"
#include "server/path_policy.h"

namespace dotresize {

struct AdmissionLimits {
  int max_ranks = 8;
};

/// Checks everything that can be checked before a job runs: the spec, the model's config.json, the
/// job against the model, the shard plan, the output. Throws INVALID_ARGUMENT with the fields,
/// PERMISSION_DENIED for a path that `paths` does not allow, or FAILED_PRECONDITION if the output
/// exists and may not be overwritten.
NewJob admit(const v1::JobSpec& spec, const std::string& request_id, const AdmissionLimits& limits,
             const PathPolicy& paths);

/// The spec of an admitted job with its paths as they are now, which are checked again: for the
/// processes that use them. Throws as PathPolicy::resolve does, and FAILED_PRECONDITION if the
/// output's path does not lead to `output` any more.
v1::JobSpec readmit(const v1::JobSpec& spec, const std::string& output, const PathPolicy& paths);

}  // namespace dotresize
