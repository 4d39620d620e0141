#pragma once

#include "server/job_store.h"

namespace dotresize {

struct AdmissionLimits {
  int max_ranks = 8;
  std::filesystem::path state_dir;  ///< no job may write there
};

/// Checks everything that can be checked before a job runs: the spec, the model's config.json, the
/// job against the model, the shard plan, the output. Throws INVALID_ARGUMENT with the fields, or
/// FAILED_PRECONDITION if the output exists.
NewJob admit(const v1::JobSpec& spec, const std::string& request_id, const AdmissionLimits& limits);

}  // namespace dotresize
