#pragma once

#include <string>
#include <vector>

#include "dotresize/v1/hardware.pb.h"
#include "job/model/model_config.h"
#include "job/plan/resolved_job.h"
#include "job/plan/shard_plan.h"

namespace dotresize {

/// How long a job takes, by what it waits for: of steps that all ranks do side by side the time of
/// the slowest one counts.
struct TimeEstimate {
  struct Phase {
    std::string name;  ///< as in the report, except that both evaluations are whole
    double seconds = 0.0;
  };
  /// The same seconds by what a running job counts.
  struct Steps {
    double check = 0.0;  ///< before everything else
    double evaluate_dense = 0.0;
    double tokens = 0.0;     ///< of the calibration, what comes with each token
    double junctions = 0.0;  ///< likewise, with each junction's map
    double sublayers = 0.0;  ///< likewise, with each sublayer of the output
    double heal = 0.0;
    double evaluate_compressed = 0.0;
    double hash = 0.0;
  };
  std::vector<Phase> phases;  ///< in the order in which a job first meets them; each above 0
  Steps steps = {};

  double total() const;
};

/// Without start-up, tokenising, and the writing of the report. The evaluation text is taken to be
/// as long as the calibration text, and files to be on the disk when they are first read. `job`
/// must have been resolved with launch_facts(hardware). Throws InputError as rank_rates does.
TimeEstimate estimate_time(const ModelConfig& config, const ResolvedJob& job, const ShardPlan& plan,
                           const v1::Hardware& hardware);

/// For people: the total, then phase, seconds and share. Lines without a last newline.
std::string time_table(const TimeEstimate& time);

}  // namespace dotresize
