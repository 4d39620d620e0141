#pragma once

#include <string>

#include "client/local/planned_job.h"

namespace dotresize {

/// Options for a Kubernetes manifest of a planned job, without a server.
struct ManifestRequest {
  std::string kind;           ///< "mpijob"; empty: no manifest
  std::string template_file;  ///< see read_mpi_job_template (job/manifest/mpi_job.h)
  int cpus = 1;               ///< per rank
};

/// Input of `kubectl create -f -` for the job: a ConfigMap with the job file, and the MPIJob that
/// runs it, as two YAML documents, or with `json` as a List. Throws InputError for an unusable
/// template.
std::string job_manifest(const PlannedJob& planned, const ManifestRequest& request, bool json);

}  // namespace dotresize
