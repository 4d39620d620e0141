#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "worker/maps/predicted_rise.h"

namespace dotresize {

/// By how much cutting the shortcut between two junctions to each of `ranks` is predicted to raise
/// the loss of a token, [ranks] float64 (docs/method.md, "All widths by loss"). The maps, of widths
/// k_in and k_out, are those of the dense model's decompositions in the metric of the loss. If
/// k_out < k_in, a shortcut has k_in - k_out more than its rank, as in shortcut_form().
at::Tensor rises_of_ranks(const MetricBasis& before, int64_t k_in, MetricBasis junction,
                          int64_t k_out, const std::vector<int64_t>& ranks);

}  // namespace dotresize
