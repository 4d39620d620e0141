#pragma once

#include <string>

#include "dotresize/v1/sweep.pb.h"
#include "job/spec/sweep_file.h"

namespace dotresize {

/// The axes of a sweep file and what it keeps, as the API has them: numbers and paths as the job
/// has them. Without `parallel`, which no file has.
v1::SweepSpec sweep_spec_of(const SweepFile& sweep);

/// The sweep file (JSON) with this job and these axes, for parse_sweep to check. Throws InputError
/// for a value that JSON cannot have.
std::string sweep_to_json(const v1::JobSpec& spec, const v1::SweepSpec& sweep);

}  // namespace dotresize
