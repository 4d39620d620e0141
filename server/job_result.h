#pragma once

#include <string>

#include "dotresize/v1/jobs.pb.h"

namespace dotresize {

/// What the report in the directory `output` says of a job that has succeeded. Throws InputError if
/// there is none, or a malformed one.
v1::JobResult result_of(const v1::Job& job, const std::string& output);

/// The same of a sweep, from the results in its directory.
v1::JobResult sweep_result_of(const v1::Job& job, const std::string& output);

}  // namespace dotresize
