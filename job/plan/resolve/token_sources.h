#pragma once

#include <string>

#include "base/files/confinement.h"
#include "dotresize/v1/job.pb.h"
#include "job/plan/resolved_job.h"

namespace dotresize {

// Text and tokens of a job: their files, and the number and length of their windows. All throw
// InputError naming the key.

/// Checks that the files are regular ones. Windows that the job file leaves open follow from the
/// header of a token file, which is opened within `confinement`, and from the model.
TokenSource calibration_source(const v1::Calibration& given, const ModelConfig& config,
                               const Confinement& confinement);

/// Does the same. Without a source these are windows of the calibration's that it leaves.
EvaluationSource evaluation_source(const v1::Evaluation& given, const TokenSource& calibration,
                                   const Confinement& confinement);

/// Refuses windows that are longer than the model's positions. `section`: "calibration".
/// `given`: the job file has the key.
void check_seqlen(const std::string& section, bool given, const TokenSource& source,
                  const ModelConfig& config);

}  // namespace dotresize
