#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/files/confinement.h"
#include "job/plan/resolve/job_resources.h"
#include "job/plan/resolved_job.h"

namespace dotresize {

namespace v1 {
class JobSpec;
}

/// Applies the defaults of proto/dotresize/v1/job.proto and checks the job. The schedule is the
/// preferred one; plan_job (job/plan/plan_job.h) replaces it if it does not fit the budgets. Throws
/// InputError naming the key.
/// Checks against the model: the width is at most hidden_size; the size is available, and below the
/// dense model's unless larger ones are allowed; there are at most as many ranks as sublayers;
/// seqlen is at most max_position_embeddings, times the factor of a dynamic rotary embedding.
/// Checks against the file system: token and text files are regular files; no input lies in the
/// output. The header of a token file decides the windows; it is opened within `confinement`.
/// `spec` must have passed validate_spec. `launch`: facts about the ranks that will run the job, if
/// they are launched already.
ResolvedJob resolve_job(const v1::JobSpec& spec, const ModelConfig& config,
                        const std::optional<LaunchFacts>& launch = {},
                        const Confinement& confinement = Confinement::of_process());

}  // namespace dotresize
