#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <vector>

#include "base/phase_clock.h"
#include "job/model/model_config.h"
#include "job/plan/rank_shard.h"
#include "job/plan/resolved_job.h"
#include "worker/checkpoint/dtypes.h"
#include "worker/checkpoint/reader.h"
#include "worker/comm/communicator.h"
#include "worker/commands/run/output/input_stamps.h"
#include "worker/commands/run/run_job.h"
#include "worker/commands/token_input.h"

namespace dotresize {

inline constexpr char kConfigFile[] = "config.json";

/// Stamps of the model's files that an output may get copies of; none for one that is not there.
std::map<std::filesystem::path, std::optional<FileStamp>> stamps_of_companions(
    const std::filesystem::path& model_dir);

/// State shared by the steps of a job. Each step takes the results of the ones before.
struct JobContext {
  const ResolvedJob& job;
  const ModelConfig& config;
  const ShardPlan& plan;
  const RunEnvironment& environment;
  /// On a GPU phases last until the device is done with them.
  PhaseClock clock{!environment.trace.empty(),
                   environment.device.cuda == nullptr
                       ? MarkMoment()
                       : [cuda = environment.device.cuda] { return cuda->mark(); }};
  TimedCommunicator comm{environment.comm, clock};
  CheckpointReader source{job.model.path, config};
  const FileStamp config_stamp = InputFile((job.model.path / kConfigFile).string()).stamp();

  const std::map<std::filesystem::path, std::optional<FileStamp>> companions =
      stamps_of_companions(job.model.path);

  const bool root = comm.rank() == 0;
  const RankShard& shard = plan.of_rank(comm.rank());
  /// Directory that all ranks write to while the output is unfinished.
  const std::filesystem::path& partial = environment.output.partial();
  Progress& progress = environment.progress;
  const at::ScalarType compute_dtype = scalar_type(job.resources.compute_dtype);
  const std::function<void(int64_t)> count_tokens =
      [&progress = environment.progress](int64_t tokens) { progress.add({.tokens = tokens}); };

  InputStamps inputs() const;
  /// Throws InputError if an input file, or one that goes with it, has changed since the job began.
  void require_unchanged_inputs() const;
  /// Opens the source again, with the tensors of these files in place of its own. Throws InputError
  /// if an input file has changed: the journal must not get results of two models.
  CheckpointReader source_with(const std::vector<std::filesystem::path>& replacements) const;
};

/// Tokens for calibration, healing and evaluation.
struct JobTokens {
  TokenWindows calibration;              ///< calibration windows without the held-out ones
  std::optional<TokenWindows> held_out;  ///< part of the calibration's windows, on which the job
                                         ///< tries its choice (`method.allocate`)
  std::optional<TokenWindows> healing;   ///< only if the job heals
  std::optional<TokenWindows> evaluation;
};

}  // namespace dotresize
