#pragma once

#include <filesystem>
#include <optional>

#include "job/model/model_config.h"
#include "job/plan/resolved_job.h"
#include "job/plan/shard_plan.h"
#include "job/report/report.h"
#include "worker/comm/communicator.h"
#include "worker/commands/progress.h"
#include "worker/commands/run/output_directory.h"
#include "worker/cuda/choose_device.h"
#include "worker/kernels/svd.h"

namespace dotresize {

/// What a job runs with besides its own options.
struct RunEnvironment {
  Communicator& comm;
  Progress& progress;
  OutputDirectory& output;           ///< this rank's of one directory
  std::filesystem::path cache_dir;   ///< for tokenised text
  std::filesystem::path trace = {};  ///< where to write a timeline of all ranks; empty: nowhere
  /// With the dense model's loss, or for it (dense_loss.h); empty: none.
  std::filesystem::path dense_loss = {};
  int decomposition_threads = 0;             ///< MapOptions; 0: as many as libtorch has
  ChosenDevice device = {};                  ///< where this rank computes; `comm` moves its tensors
  std::optional<SvdDriver> svd_driver = {};  ///< of a journal that is begun, if GPUs compute
  int cores = 0;  ///< all cores that this rank may use; 0: OMP_NUM_THREADS has decided
};

/// One whole job: perplexity of the dense model, calibration, maps, folding, the output directory,
/// perplexity of what was written, report. Collective over the ranks of the plan. The output
/// appears whole or not at all. Returns the report on rank 0. Throws InputError for bad data and
/// other std::exceptions for failures; the caller ends the other ranks.
Report run_job(const ResolvedJob& job, const ModelConfig& config, const ShardPlan& plan,
               const RunEnvironment& environment);

}  // namespace dotresize
