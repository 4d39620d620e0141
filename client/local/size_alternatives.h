#pragma once

#include <string>
#include <vector>

#include "dotresize/v1/job.pb.h"
#include "job/model/model_config.h"

namespace dotresize {

/// Another way to a model of the job's net size.
struct SizeAlternative {
  std::string recipe;           ///< as a job file says it
  std::string width;            ///< of all junctions, or that the loss decides
  double bytes_fraction = 1.0;  ///< net, of the dense ones; at most, if the loss decides
  double relative_time = 1.0;   ///< of this job's, estimated for the reference CPU
};

/// The recipes that have the size of the job's `method.size`, the recommended one first. None for a
/// job with another target; without those that the model cannot have at this size.
std::vector<SizeAlternative> size_alternatives(const v1::JobSpec& spec, const ModelConfig& model);

/// For people, a line for each under a heading; empty if there is none.
std::string alternatives_table(const std::vector<SizeAlternative>& alternatives);

/// Estimated seconds of the job on two cores like those of examples/hardware/cpu.yaml. Throws
/// InputError as resolve_job does.
double reference_seconds(const v1::JobSpec& spec, const ModelConfig& model);

}  // namespace dotresize
