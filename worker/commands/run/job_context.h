#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>

#include "base/phase_clock.h"
#include "job/model/model_config.h"
#include "job/plan/resolved_job.h"
#include "job/plan/shard_plan.h"
#include "worker/checkpoint/dtypes.h"
#include "worker/checkpoint/reader.h"
#include "worker/comm/communicator.h"
#include "worker/commands/run/run_environment.h"
#include "worker/commands/token_input.h"

namespace dotresize {

/// Returns the clock marks for phases on a GPU; null on the CPU.
inline MarkMoment mark_of(const ChosenDevice& device) {
  if (device.cuda == nullptr) return nullptr;
  return [cuda = device.cuda] { return cuda->mark(); };
}

inline constexpr char kConfigFile[] = "config.json";

/// State shared by the steps of a job. Each step takes the results of the ones before.
struct JobContext {
  ResolvedJob job;  ///< completed with the sizes that an allocation chooses
  const ModelConfig& config;
  const ShardPlan& plan;
  const RunEnvironment& environment;
  PhaseClock clock{!environment.trace.empty(), mark_of(environment.device)};
  TimedCommunicator comm{environment.comm, clock};
  CheckpointReader source{job.model.path};
  FileStamp config_stamp = InputFile((job.model.path / kConfigFile).string()).stamp();

  bool root() const { return comm.rank() == 0; }
  const RankShard& shard() const { return plan.of_rank(comm.rank()); }
  /// Directory that all ranks write to while the output is unfinished.
  const std::filesystem::path& partial() const { return environment.output.partial(); }
  /// Returns the source's config.json and weights.
  std::vector<std::filesystem::path> input_files() const;
  /// Throws InputError if an input file has changed since it was opened.
  void require_unchanged_inputs() const;
  Progress& progress() const { return environment.progress; }
  at::ScalarType compute_dtype() const { return scalar_type(job.resources.compute_dtype); }
  std::function<void(int64_t)> count_tokens() const {
    return [&progress = environment.progress](int64_t tokens) { progress.tokens_seen(tokens); };
  }
};

/// Tokens for calibration, healing and evaluation.
struct JobTokens {
  TokenWindows calibration;              ///< calibration windows without the held-out ones
  at::Tensor all_windows;                ///< all windows of the calibration
  std::optional<TokenWindows> held_out;  ///< part of the calibration's windows (held_out.h)
  std::optional<TokenWindows> healing;   ///< only if the job heals
  std::optional<TokenWindows> evaluation;
};

}  // namespace dotresize
