#pragma once

#include <string>

#include "client/local/planned_job.h"

namespace dotresize {

/// How a planned job is handed to Kubernetes without a server.
struct ManifestRequest {
  std::string kind;           ///< "mpijob"; empty: not at all
  std::string template_file;  ///< see read_mpi_job_template (job/manifest/mpi_job.h)
  int cpus = 1;               ///< of a rank
};

/// What `kubectl create -f -` makes of the job: a ConfigMap with the job file, and the MPIJob that
/// runs it, as two YAML documents, or with `json` as a List. Throws InputError for a template into
/// which no job can be put.
std::string job_manifest(const PlannedJob& planned, const ManifestRequest& request, bool json);

}  // namespace dotresize
