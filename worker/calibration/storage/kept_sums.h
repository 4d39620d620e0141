#pragma once

#include <string>
#include <vector>

#include "worker/calibration/calibration_job.h"
#include "worker/calibration/junction_passes.h"

namespace dotresize {

/// Reads an entry of the statistics that the job uses, else of its journal. An entry of statistics
/// is checked: throws InputError if a tensor of `required` is missing, or if a tensor has another
/// shape or dtype.
NamedTensors kept_sums(const CalibrationJob& job, const std::string& entry,
                       const std::vector<std::string>& required);

/// Returns a tensor of an entry, which may be of statistics. Throws InputError if it is missing, or
/// has another shape or dtype.
at::Tensor kept_tensor(const NamedTensors& tensors, const std::string& entry,
                       const std::string& name, at::ScalarType dtype, at::IntArrayRef shape);

}  // namespace dotresize
