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
  v1::SweepResults results;  ///< as far as the sweep's directory has them already
};

/// Checks a sweep as admit() checks a job, and plans each of its jobs. Throws as admit() does; a
/// combination that makes no job is no error unless there is no other.
AdmittedSweep admit_sweep(const v1::CreateSweepRequest& request, const Machine& machine,
                          const PathPolicy& paths);

/// The sweep with every path as it is now, those among its values too. Throws as
/// PathPolicy::resolve does, and INVALID_ARGUMENT for what is wrong with it.
SweepFile resolve_sweep(const v1::JobSpec& spec, const v1::SweepSpec& sweep,
                        const PathPolicy& paths);

/// What all of its jobs claim, of resolve_sweep().
std::vector<PathClaim> claims_of(const SweepFile& sweep);

/// Gives an admitted sweep its paths as they are now, as readmit() does for a job.
void readmit_sweep(v1::Job& job, const std::string& output, const PathPolicy& paths);

}  // namespace dotresize
