#pragma once

#include <string>

#include "dotresize/v1/sweep.pb.h"
#include "job/spec/sweep_file.h"

namespace dotresize {

/// Converts the axes and `keep` of a sweep file to the API's message. Numbers and paths have the
/// form that they have in the job. `parallel` is not set: no file has it.
v1::SweepSpec sweep_spec_of(const SweepFile& sweep);

/// Returns the JSON sweep file with this job and these axes, as input for parse_sweep. Throws
/// InputError for a value that JSON cannot represent.
std::string sweep_to_json(const v1::JobSpec& spec, const v1::SweepSpec& sweep);

}  // namespace dotresize
