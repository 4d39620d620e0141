#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "server/access/path_policy.h"
#include "server/store/job_store.h"
#include "server/store/resources.h"

namespace dotresize {

/// Checks everything that can be checked before a job runs: the request, the model's config.json,
/// the job against the model, its plan against the machine (unless it runs elsewhere), the output.
/// Throws INVALID_ARGUMENT
/// with the fields, PERMISSION_DENIED for a path that `paths` does not allow, or
/// FAILED_PRECONDITION if the output exists and may not be overwritten.
/// A job that names what lies elsewhere is planned once there are `copies` of it, and is `fetching`
/// before that.
NewJob admit(const v1::CreateJobRequest& request, const Machine& machine, const PathPolicy& paths,
             const std::optional<RemoteCopies>& copies = std::nullopt);

/// What jobs and sweeps have in common: of each the ranks are those of `spec`.
void check_request(const std::string& request_id, const v1::JobOptions& options);
v1::Resources::Launcher chosen_launcher(const v1::JobSpec& spec, const Machine& machine);
/// That the machine has so many ranks and GPUs.
void check_counts(const v1::JobSpec& spec, const Amounts& capacity);
/// That a job may have an output of this name.
void check_output_name(const std::string& output);
/// Of a job or sweep; larger ones are refused.
inline constexpr size_t kMaxSpecBytes = size_t{256} * 1024;

/// Gives each rank an equal part of `memory` (bytes) as its budget, unless the spec has one.
void set_memory_budget(v1::JobSpec& spec, int64_t memory);

/// The spec of an admitted job with its paths as they are now, which are checked again: for the
/// processes that use them. Throws as PathPolicy::resolve does, FAILED_PRECONDITION if the
/// output's path does not lead to `output` any more, and INVALID_ARGUMENT for a key of an earlier
/// version that this one does not have. What lies elsewhere is replaced as localize() does.
v1::JobSpec readmit(const v1::JobSpec& spec, const std::string& output, const PathPolicy& paths,
                    const RemoteCopies& copies = {});

}  // namespace dotresize
