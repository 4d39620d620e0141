#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "worker/calibration/calibration.h"
#include "worker/maps/removal/feature_removal.h"
#include "worker/maps/removal/value_removal.h"

namespace dotresize {

// Tensors that a cut changes in a sublayer, by their names in the checkpoint, on the CPU. Computed
// tensors have the fold dtype; selected rows keep the dtype of the source.

/// Tensors of a cut MLP, or of all experts of a mixture.
std::map<std::string, at::Tensor> tensors_of_cut_mlp(const CalibrationJob& job, int64_t sublayer,
                                                     const std::vector<CutFeatures>& cuts);

/// Tensors of a cut attention: v (or the matrix it is fused into) and o.
std::map<std::string, at::Tensor> tensors_of_cut_attention(const CalibrationJob& job,
                                                           int64_t sublayer, const CutValues& cut);

}  // namespace dotresize
