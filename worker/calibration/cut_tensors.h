#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "worker/calibration/calibration.h"
#include "worker/maps/feature_removal.h"
#include "worker/maps/value_removal.h"

namespace dotresize {

// What a cut changes of a sublayer's tensors, under their names in the checkpoint, on the CPU: what
// was computed in the fold dtype, rows that are left as they are in the source's.

/// Of an MLP, or of all experts of a mixture.
std::map<std::string, at::Tensor> tensors_of_cut_mlp(const CalibrationJob& job, int64_t sublayer,
                                                     const std::vector<CutFeatures>& cuts);

/// Of an attention: v, or what it is fused with, and o.
std::map<std::string, at::Tensor> tensors_of_cut_attention(const CalibrationJob& job,
                                                           int64_t sublayer, const CutValues& cut);

}  // namespace dotresize
