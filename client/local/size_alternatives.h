#pragma once

#include <string>
#include <vector>

#include "dotresize/v1/job.pb.h"
#include "job/model/model_config.h"

namespace dotresize {

/// Another recipe for a model of the job's net size.
struct SizeAlternative {
  std::string recipe;           ///< spelling in a job file
  std::string width;            ///< width of all junctions, or "by the loss"
  double bytes_fraction = 1.0;  ///< net bytes / dense bytes; a limit if by the loss
  double relative_time = 1.0;   ///< time / this job's time, on the reference CPU
};

/// Recipes that reach the size of the job's `method.size`, the recommended one first. Recipes that
/// the model cannot have at this size are left out. Empty for a job with another target.
std::vector<SizeAlternative> size_alternatives(const v1::JobSpec& spec, const ModelConfig& model);

/// Table for people with a heading and a line for each; empty if there are none.
std::string alternatives_table(const std::vector<SizeAlternative>& alternatives);

/// Estimated seconds of the job on two cores like those of examples/hardware/cpu.yaml. Throws
/// InputError like resolve_job.
double reference_seconds(const v1::JobSpec& spec, const ModelConfig& model);

}  // namespace dotresize
