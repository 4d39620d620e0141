#pragma once

#include <optional>
#include <string>
#include <vector>

#include "client/local/size_alternatives.h"
#include "job/model/model_config.h"
#include "job/plan/check_files.h"
#include "job/plan/estimate/time_estimate.h"
#include "job/plan/resolved_job.h"
#include "job/plan/shard_plan.h"
#include "job/remote/localized_job.h"
#include "job/spec/job_file.h"

namespace dotresize {

/// Which job is planned, and for what.
struct PlanRequest {
  std::string job_file;
  std::vector<std::string> changes;  ///< of the file, see job/spec/job_changes.h
  RemoteCache remote;                ///< where copies of what lies elsewhere are kept
  bool for_run = false;              ///< of a model elsewhere its weights are needed too
  std::string hardware;              ///< file with the rates of a machine; empty: this one
};

struct PlannedJob {
  JobFile file;       ///< with copies in the place of what lies elsewhere
  v1::JobSpec given;  ///< as the file has it
  std::vector<HeldCopy> held;
  ModelConfig model;
  ResolvedJob job;
  ShardPlan plan;
  std::optional<TimeEstimate> time;
  std::vector<SizeAlternative> alternatives;  ///< other ways to its net size; of `plan` alone
  std::vector<FileFinding> findings;  ///< of its inputs, an output that exists, and its widths
};

/// Plans the job as it would run here, or on the hardware. Throws InputError, with file and line of
/// the key that is at fault.
PlannedJob plan_job(const PlanRequest& request);

/// Throws InputError for the findings that are fatal, each on a line; that the output exists is one
/// if `to_write`.
void require_runnable(const PlannedJob& planned, bool to_write);

/// The findings, "warning: ..." each on a line.
std::string plan_warnings(const PlannedJob& planned);

/// For people, or one JSON document; both end with the findings as warnings.
std::string plan_text(const PlannedJob& planned);
std::string plan_json(const PlannedJob& planned);

}  // namespace dotresize
