#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "job/model/model_config.h"
#include "job/plan/resolved_job.h"
#include "job/plan/shards/rank_shard.h"
#include "job/report/report.h"
#include "worker/comm/communicator.h"
#include "worker/commands/progress.h"
#include "worker/commands/run/output/output_directory.h"
#include "worker/cuda/choose_device.h"
#include "worker/kernels/svd.h"

namespace dotresize {

/// Environment of a job besides its own options.
struct RunEnvironment {
  Communicator& comm;
  Progress& progress;
  OutputDirectory& output;                       ///< this rank's object of the shared directory
  std::filesystem::path cache_dir;               ///< cache of tokenised text
  std::string identity;                          ///< see job/report/job_identity.h; rank 0 only
  std::vector<std::string> model_warnings = {};  ///< those about the source and the plan
  std::filesystem::path trace = {};  ///< file for the timeline of all ranks; empty: no timeline
  /// File to read the dense model's loss from, or to write it to (evaluate_dense); empty: no file.
  std::filesystem::path dense_loss = {};
  int decomposition_threads = 0;             ///< see MapOptions; 0: libtorch's number of threads
  ChosenDevice device = {};                  ///< this rank's device; `comm` moves its tensors
  std::optional<SvdDriver> svd_driver = {};  ///< driver for a new journal, if GPUs compute
  int cores = 0;  ///< cores that this rank may use; 0: OMP_NUM_THREADS is set
};

/// Runs a whole job: perplexity of the dense model, calibration, maps, folding, the output
/// directory, perplexity of the output, report. The output appears whole or not at all. Returns the
/// report on rank 0. Throws InputError for bad data and other std::exceptions for failures; the
/// caller ends the other ranks. Collective over the ranks of the plan.
Report run_job(const ResolvedJob& job, const ModelConfig& config, const ShardPlan& plan,
               const RunEnvironment& environment);

}  // namespace dotresize
