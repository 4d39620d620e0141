#pragma once

#include <string>
#include <vector>

#include "dotresize/v1/jobs.pb.h"
#include "job/spec/sweep_file.h"
#include "server/access/path_policy.h"
#include "server/store/job_store.h"
#include "server/store/resources.h"

namespace dotresize {

struct AdmittedSweep {
  NewJob job;
  v1::SweepResults results;  ///< results that the sweep's directory has already
};

/// Checks a sweep as admit() checks a job, and plans each of its jobs. Throws like admit(). A
/// combination that makes no job is an error only if no combination makes one.
AdmittedSweep admit_sweep(const v1::CreateSweepRequest& request, const Machine& machine,
                          const PathPolicy& paths);

/// Returns the sweep with all paths resolved now, including those among its values. Throws like
/// PathPolicy::resolve(), and INVALID_ARGUMENT for a faulty sweep.
SweepFile resolve_sweep(const v1::JobSpec& spec, const v1::SweepSpec& sweep,
                        const PathPolicy& paths);

/// Returns the claims of all jobs of a sweep from resolve_sweep().
std::vector<PathClaim> claims_of(const SweepFile& sweep);

/// Checks an admitted sweep again and resolves its paths now, as readmit() does for a job.
void readmit_sweep(v1::Job& job, const std::string& output, const PathPolicy& paths);

}  // namespace dotresize
