#pragma once

#include <optional>
#include <vector>

#include "job/plan/allocate/joint_allocation.h"
#include "job/report/report.h"
#include "worker/calibration/calibration.h"
#include "worker/checkpoint/writer.h"
#include "worker/commands/run/job_context.h"
#include "worker/commands/run/output/statistics_directory.h"
#include "worker/commands/run/resume.h"

namespace dotresize {

/// Results of calibration: the written output's shape, and the reports.
struct Calibrated {
  JunctionWidths widths;
  ModelConfig cut;  ///< the dense model with the MLPs and value heads of the output
  ModelConfig output;
  ShardLayout layout;
  std::vector<JunctionReport> junctions;    ///< rank 0
  std::vector<MlpReport> mlps;              ///< rank 0
  std::vector<AttentionReport> attentions;  ///< rank 0
  std::optional<Allocation> allocation;
  /// KL divergence of the output from the dense model, in nats a token of the held-out windows;
  /// only with an allocation.
  std::optional<double> held_out_kl;
  double seconds = 0.0;
};

/// Returns the calibration of the source, or of the source with cut MLPs. The references must
/// outlive the result.
CalibrationJob calibration_job(const JobContext& run, const ModelConfig& config,
                               const CheckpointReader& reader, const TokenWindows& tokens,
                               OpenedJournal& opened);

/// Opens the job's journal, after checking that the disk has room for the output. Collective.
OpenedJournal open_journal_of(JobContext& run, const JobTokens& tokens);

/// Opens the job's statistics; nothing if the job keeps none. Collective.
std::optional<StatisticsDirectory> open_statistics(JobContext& run, const TokenWindows& tokens);

/// Runs everything from the choice of widths to the written shards and the files needed to load
/// them. The output of an allocation is compared with the dense model on the held-out windows. If
/// it lost more than predicted, it is written once more as AllocationChoice::correct() decides.
/// Collective.
Calibrated calibrate(JobContext& run, const JobTokens& tokens, OpenedJournal& opened,
                     std::optional<StatisticsDirectory>& statistics);

}  // namespace dotresize
