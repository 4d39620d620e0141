#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <vector>

#include "base/phase_clock.h"
#include "job/model/model_config.h"
#include "job/plan/allocate/allocation.h"
#include "job/plan/resolved_job.h"
#include "job/plan/shards/rank_shard.h"
#include "job/report/report.h"
#include "worker/calibration/calibration_job.h"
#include "worker/checkpoint/dtypes.h"
#include "worker/checkpoint/reader.h"
#include "worker/checkpoint/writer.h"
#include "worker/comm/communicator.h"
#include "worker/commands/kept_states.h"
#include "worker/commands/run/output/file_hashes.h"
#include "worker/commands/run/output/statistics_directory.h"
#include "worker/commands/run/resume.h"
#include "worker/commands/run/run_job.h"
#include "worker/commands/token_input.h"
#include "worker/evaluation/perplexity.h"

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

// Steps of a job, in the order in which run_job takes them. Collective.

/// Opens the job's journal, after checking that the disk has room for the output. Collective.
OpenedJournal open_journal_of(JobContext& run, const JobTokens& tokens);

/// Opens the job's statistics; nothing if the job keeps none. Collective.
std::optional<StatisticsDirectory> open_statistics(JobContext& run, const TokenWindows& tokens);

/// Results of the dense model, for comparison with the output.
struct DenseEvaluation {
  NegativeLogLikelihood loss;
  std::optional<KeptStates> states;  ///< only if predictions are compared
};

/// Evaluates the dense model. Reuses the result of an interrupted run, or of the dense-loss file if
/// no states are needed, for the same tokens. Returns nothing if the job has no evaluation.
/// Collective.
std::optional<DenseEvaluation> evaluate_dense(JobContext& run, const JobTokens& tokens,
                                              Journal& journal);

/// Results of calibration: the written output's shape, and the reports.
struct Calibrated {
  JunctionWidths widths;
  ModelConfig cut;  ///< the dense model with the sublayers of the output
  ModelConfig output;
  ShardLayout layout;
  std::vector<JunctionReport> junctions;  ///< rank 0
  std::vector<CutReport> cuts;            ///< rank 0
  std::optional<Allocation> allocation;
  /// KL divergence of the trial from the dense model, in nats a token of the held-out windows; only
  /// with an allocation.
  std::optional<double> held_out_kl;
  double seconds = 0.0;
};

/// Runs everything from the choice of widths to the written shards and the files needed to load
/// them. Collective.
Calibrated calibrate(JobContext& run, const JobTokens& tokens, OpenedJournal& opened,
                     std::optional<StatisticsDirectory>& statistics);

/// Writes dotresize/maps.safetensors of an output with maps: `NAME.map` [d, k] and `NAME.inverse`
/// [k, d] of each junction, in float32, with the report's junction names. Collective.
void write_maps(JobContext& run, const TokenWindows& calibration, OpenedJournal& opened,
                const Calibrated& calibrated);

/// Distils the written output from the dense model, and replaces the folded weights by the trained
/// ones if these are better. Returns the report's part; nothing if the job does not heal.
/// Collective.
std::optional<HealingReport> heal(JobContext& run, const JobTokens& tokens, OpenedJournal& opened,
                                  const Calibrated& calibrated);

/// Evaluates the written output, and the divergence of its predictions from the dense model's.
/// Returns nothing if the job has no evaluation. Collective.
std::optional<EvaluationSums> evaluate_compressed(JobContext& run, const JobTokens& tokens,
                                                  const std::optional<DenseEvaluation>& dense);

// Parts that several steps use.

/// Returns the calibration of the source, or of the source with cut MLPs. The references must
/// outlive the result.
CalibrationJob calibration_job(const JobContext& run, const ModelConfig& config,
                               const CheckpointReader& reader, const TokenWindows& tokens,
                               OpenedJournal& opened);

/// Windows for fitting, and held-out windows that measure the fit.
struct SplitWindows {
  at::Tensor fitted;    ///< ids [samples, seqlen] int64
  at::Tensor held_out;  ///< every eighth window; the last one if there are fewer than eight
  // Positions in the whole set.
  std::vector<int64_t> fitted_numbers;
  std::vector<int64_t> held_out_numbers;
};

/// Splits the windows. A single window is used for both.
SplitWindows split_windows(const at::Tensor& all);

/// Returns an evaluation on the job's device in its compute dtype. Its tokens count in the job's
/// progress. The references must outlive it.
CheckpointEvaluation evaluation_of(const JobContext& run, const CheckpointReader& reader,
                                   const ModelConfig& config, const at::Tensor& windows);

/// Runs the dense model over the windows, unless `states` has its final states. These tokens do not
/// count in the job's progress. Collective.
void keep_dense_states(JobContext& run, const at::Tensor& windows, KeptStates& states);

}  // namespace dotresize
