#pragma once

#include <sys/types.h>

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "client/local/size_alternatives.h"
#include "job/plan/check_files.h"
#include "job/plan/estimate/estimates.h"
#include "job/plan/plan_job.h"
#include "job/remote/localized_job.h"
#include "job/spec/job_file.h"

namespace dotresize {

/// Request to plan a job.
struct PlanRequest {
  std::string job_file;
  std::vector<std::string> changes;  ///< changes to the file (job/spec/job_file.h)
  RemoteCache remote;                ///< cache for copies of remote files
  bool for_run = false;              ///< a remote model's weights are fetched too
  std::string hardware;              ///< file with a machine's rates; empty: this machine
};

struct PlannedJob {
  JobFile file;       ///< remote paths replaced by local copies
  v1::JobSpec given;  ///< spec with the original paths
  std::vector<HeldCopy> held;
  JobPlan plan;
  std::optional<TimeEstimate> time;
  std::vector<SizeAlternative> alternatives;  ///< set by the verb plan
  std::vector<FileFinding> findings;          ///< inputs, existing output, widths
};

/// Plans the job as it would run on this machine, or on `request.hardware`. Throws InputError with
/// the file and line of the faulty key.
PlannedJob plan_job(const PlanRequest& request);

/// Throws InputError with all fatal findings, one per line. An existing output is fatal only if
/// `to_write`.
void require_runnable(const PlannedJob& planned, bool to_write);

/// The findings, one line "warning: ..." each.
std::string plan_warnings(const PlannedJob& planned);

/// The plan as text, or as one JSON document. Both end with the findings as warnings.
std::string plan_text(const PlannedJob& planned);
std::string plan_json(const PlannedJob& planned);

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

/// State of a job's output on this machine, by the files on disk: complete or not.
class FinishedOutput {
 public:
  /// Remembers what is at the output's path now.
  explicit FinishedOutput(const PlannedJob& planned);

  /// True if an earlier run of this very job has made the output, and it is not to be replaced.
  bool is_there() const;
  /// True if this job's output has come there since this object was made.
  bool came_since() const;

 private:
  std::filesystem::path path_;
  bool overwrite_;
  std::string identity_;
  std::optional<ino_t> before_;  ///< what was at the path
};

}  // namespace dotresize
