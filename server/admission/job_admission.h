#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "job/model/model_config.h"
#include "job/spec/sweep_file.h"
#include "server/access/path_policy.h"
#include "server/admission/known_models.h"
#include "server/store/job_store.h"
#include "server/store/resources.h"

namespace dotresize {

/// Parts that admission works with; all outlive its calls.
struct AdmissionContext {
  const Machine& machine;
  const PathPolicy& paths;
  KnownModels& models;
};

/// Checks everything that can be checked before a job runs: the request, the model's config.json,
/// the job against the model, its plan against the machine (unless it runs elsewhere), the output.
/// Throws INVALID_ARGUMENT with the fields, PERMISSION_DENIED for a path that is not allowed, or
/// FAILED_PRECONDITION if the output exists and may not be overwritten. A job with remote inputs is
/// planned once `copies` of them are given; before that, the result is `fetching`.
NewJob admit(const v1::CreateJobRequest& request, const AdmissionContext& context,
             const std::optional<RemoteCopies>& copies = std::nullopt);

/// Checks the request fields that jobs and sweeps share. Throws INVALID_ARGUMENT.
void check_request(const std::string& request_id, const v1::JobOptions& options);
std::string chosen_launcher(const v1::JobSpec& spec, const Machine& machine);
/// Throws INVALID_ARGUMENT unless the machine has enough ranks and GPUs for one job of this spec.
void check_counts(const v1::JobSpec& spec, const Amounts& capacity);
/// Throws INVALID_ARGUMENT if the name is reserved for unfinished outputs.
void check_output_name(const std::string& output);
/// Largest spec of a job or sweep.
inline constexpr size_t kMaxSpecBytes = size_t{256} * 1024;

/// Returns the config of the job's model. Throws INVALID_ARGUMENT if its directory lacks something,
/// or has a file that is not regular.
ModelConfig checked_config(const v1::JobSpec& spec, const AdmissionContext& context);

/// Sets each rank's budget to an equal part of `memory` (bytes), unless the spec has a budget.
void set_memory_budget(v1::JobSpec& spec, int64_t memory);

/// Checks the spec of an admitted job again and returns it with its paths resolved now, for the
/// processes that use them. Replaces remote paths like localize(). Throws like
/// PathPolicy::resolve(), FAILED_PRECONDITION if the output's path no longer leads to `output`, and
/// INVALID_ARGUMENT for a key that this version does not have.
v1::JobSpec readmit(const v1::JobSpec& spec, const std::string& output, const PathPolicy& paths,
                    const RemoteCopies& copies = {});

struct AdmittedSweep {
  NewJob job;
  v1::SweepResults results;  ///< results that the sweep's directory has already
};

/// Checks a sweep as admit() checks a job, and plans each of its jobs. Throws like admit(). A
/// combination that makes no job is an error only if no combination makes one.
AdmittedSweep admit_sweep(const v1::CreateSweepRequest& request, const AdmissionContext& context);

/// Returns the sweep with all paths resolved now, including those among its values. Throws like
/// PathPolicy::resolve(), and INVALID_ARGUMENT for a faulty sweep.
SweepFile resolve_sweep(const v1::JobSpec& spec, const v1::SweepSpec& sweep,
                        const PathPolicy& paths);

/// Returns the claims of all jobs of a sweep from resolve_sweep().
std::vector<PathClaim> claims_of(const SweepFile& sweep);

/// Checks an admitted sweep again and resolves its paths now, as readmit() does for a job.
void readmit_sweep(v1::Job& job, const std::string& output, const PathPolicy& paths);

}  // namespace dotresize
