#pragma once

#include <c10/core/Device.h>

#include <filesystem>
#include <functional>
#include <string>

#include "job/model_config.h"
#include "job/report.h"
#include "job/resolved_job.h"
#include "job/shard_plan.h"
#include "worker/comm/communicator.h"
#include "worker/run/output_directory.h"
#include "worker/run/progress.h"

namespace dotresize {

/// What a job runs with besides its own options.
struct RunEnvironment {
  Communicator& comm;
  Progress& progress;
  std::filesystem::path cache_dir;    ///< for tokenised text
  OutputDirectory* output = nullptr;  ///< rank 0's; null on the others
  std::filesystem::path trace = {};   ///< where to write a timeline of all ranks; empty: nowhere
  /// Where this rank computes; `comm` moves tensors that are there.
  at::Device device = at::kCPU;
  std::string gpu = {};                    ///< its name, for the report; empty on the CPU
  std::function<void()> finish_work = {};  ///< waits for the device; throws nothing
};

/// One whole job: perplexity of the dense model, calibration, maps, folding, the output directory,
/// perplexity of what was written, report. Collective over the ranks of the plan. The output
/// appears whole or not at all. Returns the report on rank 0. Throws InputError for bad data and
/// other std::exceptions for failures; the caller ends the other ranks.
Report run_job(const ResolvedJob& job, const ModelConfig& config, const ShardPlan& plan,
               const RunEnvironment& environment);

}  // namespace dotresize
