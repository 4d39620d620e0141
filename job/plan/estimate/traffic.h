#pragma once

#include <cstdint>

#include "job/model/model_config.h"
#include "job/plan/resolved_job.h"
#include "job/plan/shard_plan.h"

namespace dotresize {

/// Bytes that all ranks of a job move together. These are estimates: the evaluation text is assumed
/// to be as long as the calibration text.
struct Traffic {
  int64_t read_bytes = 0;        ///< source and output; from disk or the system's file cache
  int64_t sent_bytes = 0;        ///< bytes between ranks
  int64_t written_bytes = 0;     ///< the output, the journal and statistics
  int64_t journal_bytes = 0;     ///< peak size of the journal
  int64_t statistics_bytes = 0;  ///< written for `calibration.statistics.save`
};

Traffic estimate_traffic(const ModelConfig& config, const ResolvedJob& job, const ShardPlan& plan);

/// Bytes of the dense model's states before the head, for `tokens` evaluation tokens. The journal
/// keeps them to compare the predictions. 0 if nothing is compared.
int64_t kept_states_bytes(const ModelConfig& config, const ResolvedJob& job, int64_t tokens);
/// Bytes of the statistics that a job writes; 0 if it saves none.
int64_t saved_statistics_bytes(const ModelConfig& config, const ResolvedJob& job);
/// Bytes of the statistics that a job reads, because it saves or uses them; 0 without any.
int64_t read_statistics_bytes(const ModelConfig& config, const ResolvedJob& job);

/// True if the sublayers' values are read for their check alone. False with an evaluation, because
/// the dense model is evaluated first. False for a pipeline without statistics, or with an
/// allocation, because it begins with loading its stages.
bool checks_sublayers_first(const ResolvedJob& job);

}  // namespace dotresize
