#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "job/model/model_config.h"
#include "job/plan/estimate/phase_times.h"
#include "job/plan/resolved_job.h"
#include "job/plan/shards/rank_shard.h"
#include "job/plan/steps/passes.h"

namespace dotresize {

struct JobTime;

/// Bytes that all ranks of a job move together. These are estimates: the evaluation text is assumed
/// to be as long as the calibration text.
struct Traffic {
  int64_t read_bytes = 0;        ///< source and output; from disk or the system's file cache
  int64_t sent_bytes = 0;        ///< bytes between ranks
  int64_t written_bytes = 0;     ///< the output, the journal and statistics
  int64_t journal_bytes = 0;     ///< peak size of the journal
  int64_t statistics_bytes = 0;  ///< written for `calibration.statistics.save`
};

/// A job with its shards. The referenced objects must outlive it.
struct JobParts {
  const ModelConfig& config;  ///< dense model, or the model with its sublayers cut
  const ResolvedJob& job;
  const ShardPlan& plan;
};

/// Tokens that a running job has found in its files.
struct FoundTokens {
  int64_t calibration = 0;  ///< without those that an allocation holds out
  int64_t held_out = 0;
  int64_t evaluation = 0;
  int64_t healing_windows = 0;
  int64_t seqlen = 0;  ///< length of the windows of calibration and healing
};

/// Phases of a job's progress. Each has one step or several.
inline constexpr char kPrepare[] = "prepare";
inline constexpr char kEvaluateDense[] = "evaluate_dense";
inline constexpr char kCalibrate[] = "calibrate";
inline constexpr char kHeal[] = "heal";
inline constexpr char kEvaluateCompressed[] = "evaluate_compressed";
inline constexpr char kFinish[] = "finish";

/// One step of a job, a row of steps(): when it runs, and what it takes. A plan adds up the steps
/// that its job has (job/plan/estimate/estimates.h, job_time.h). Without a function, a step
/// takes nothing that counts.
struct Step {
  std::string_view phase;
  /// True if it computes with the model whose sublayers are cut; false: with the dense one.
  bool after_cut = false;
  /// Phase during which a thread does the step. Only what lasts longer counts, unless the thread
  /// takes a core from the ranks.
  std::string_view beside = {};
  bool (*runs)(const ResolvedJob& job) = [](const ResolvedJob&) { return true; };
  /// Peak bytes of a rank on its computing device, without libraries.
  int64_t (*memory)(const RankSizes& rank) = nullptr;
  /// Peak bytes on the host of a rank that computes on a GPU, beside weights on their way.
  int64_t (*host_memory)(const RankSizes& rank) = nullptr;
  /// Number of passes of the calibration's tokens through all sublayers, with their way back.
  double (*passes)(const ResolvedJob& job) = nullptr;
  /// Adds other operations. By both, sublayers are dealt out to ranks.
  void (*work)(JobWork& work) = nullptr;
  /// Adds bytes; `written_bytes` without journal and statistics.
  void (*traffic)(const JobParts& parts, Traffic& traffic) = nullptr;
  PhaseTimes (*time)(const JobTime& time) = nullptr;
  /// Tokens that rank 0 counts as progress.
  int64_t (*tokens)(const JobParts& parts, const FoundTokens& found) = nullptr;
};

extern const Step kCheckStep;            // check.cpp
extern const Step kDenseEvaluationStep;  // evaluate.cpp
extern const Step kCutStep;              // cut.cpp
extern const Step kMapsStep;             // maps.cpp
extern const Step kPipelineStep;         // pipeline.cpp
extern const Step kLayerwiseStep;        // layerwise.cpp
extern const Step kTokenParallelStep;    // token_parallel.cpp
extern const Step kFoldStep;             // fold.cpp
extern const Step kTrialStep;            // evaluate.cpp
extern const Step kHealStep;             // heal.cpp
extern const Step kEvaluationStep;       // evaluate.cpp
extern const Step kSourceHashStep;       // finish.cpp
extern const Step kOutputHashStep;       // finish.cpp

/// All steps, in the order in which time tables have them.
std::span<const Step* const> steps();

// Facts that several steps need.

/// Bytes of a model's weights that ranks send each other while they take turns to read it.
int64_t sent_weights(const JobParts& parts);

/// True if the sublayers' values are read for their check alone. False with an evaluation, because
/// the dense model is evaluated first. False for a pipeline without statistics, or with an
/// allocation, because it begins with loading its stages.
bool checks_sublayers_first(const ResolvedJob& job);

/// Bytes of the dense model's states before the head, for `tokens` evaluation tokens. The journal
/// keeps them to compare the predictions. 0 if nothing is compared.
int64_t kept_states_bytes(const ModelConfig& config, const ResolvedJob& job, int64_t tokens);
/// Peak of a rank that evaluates a model: its share of the windows goes through one sublayer after
/// the other.
int64_t evaluation_memory(const RankSizes& rank);

/// Floating-point operations, float64, to remove features or channels of a sublayer and to fit what
/// is left. 0: not cut.
struct CutOperations {
  double curve = 0.0;   ///< loss increases of all sizes
  double trial = 0.0;   ///< the cut that an allocation tries
  double output = 0.0;  ///< the cut of the output

  double all() const { return curve + trial + output; }
};

CutOperations cut_operations(const ModelConfig& config, const ResolvedJob& job, int64_t sublayer);

/// Bytes for the feature sums of all the rank's sublayers, if an allocation keeps them.
int64_t kept_feature_sums(const RankSizes& rank);
/// Bytes that the curves of an allocation take.
int64_t curve_bytes(const ModelConfig& config, const ResolvedJob& job);
/// Held-out windows of an allocation, as a share of all.
double held_out_share(const ResolvedJob& job);

/// Bytes of the statistics that a job writes; 0 if it saves none.
int64_t saved_statistics_bytes(const ModelConfig& config, const ResolvedJob& job);
/// Bytes of the statistics that a job reads, because it saves or uses them; 0 without any.
int64_t read_statistics_bytes(const ModelConfig& config, const ResolvedJob& job);

/// Floating-point operations in the fold dtype, for the in_proj, and for the out_proj and the
/// shortcut.
struct FoldCounts {
  double in_proj = 0.0;
  double out_proj = 0.0;
};

FoldCounts fold_counts(const ModelConfig& config, int64_t sublayer, int64_t width);

}  // namespace dotresize
