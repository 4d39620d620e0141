#pragma once

#include <cstdint>

#include "job/model/model_config.h"
#include "job/plan/resolved_job.h"
#include "job/plan/shard_plan.h"

namespace dotresize {

/// What a job moves, of all ranks together, in bytes. Estimates: the evaluation text is taken to be
/// as long as the calibration text.
struct Traffic {
  int64_t read_bytes = 0;        ///< of source and output; from disk or the system's file cache
  int64_t sent_bytes = 0;        ///< between ranks
  int64_t written_bytes = 0;     ///< the output, the journal and statistics
  int64_t journal_bytes = 0;     ///< the most that the journal has at a time
  int64_t statistics_bytes = 0;  ///< of `calibration.statistics.save`
};

Traffic estimate_traffic(const ModelConfig& config, const ResolvedJob& job, const ShardPlan& plan);

/// What the journal keeps of the dense model, for the comparison of the predictions: its states
/// before the head, of so many evaluation tokens. 0 if nothing is compared.
int64_t kept_states_bytes(const ModelConfig& config, const ResolvedJob& job, int64_t tokens);
/// The same of as many tokens as the estimates take the evaluation text to have.
int64_t expected_states_bytes(const ModelConfig& config, const ResolvedJob& job);
/// What a job writes of the statistics that it saves; 0 if it saves none.
int64_t saved_statistics_bytes(const ModelConfig& config, const ResolvedJob& job);
/// What a job reads of the statistics that it saves or uses; 0 without any.
int64_t read_statistics_bytes(const ModelConfig& config, const ResolvedJob& job);

/// Whether the sublayers' values are read for their check alone. With an evaluation the dense model
/// is evaluated first, and a pipeline that has no statistics begins with loading its stages: they
/// see all of them.
bool checks_sublayers_first(const ResolvedJob& job);

}  // namespace dotresize
