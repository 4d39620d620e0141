#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "worker/maps/describe/predicted_loss_increase.h"
#include "worker/maps/junction_map.h"

namespace dotresize {

/// Returns the map of width k of the decomposition.
JunctionMap map_of(const MetricBasis& junction, int64_t k);

/// Returns the predicted loss increase of a token if the shortcut between two junctions is cut to
/// each of `ranks`, [ranks] float64 (docs/method.md, "All widths by loss"). `in` and `out`, of
/// widths k_in and k_out, are maps of the dense model's decompositions in the metric of the loss.
/// If k_out < k_in, a shortcut keeps k_in - k_out more than its rank, as in shortcut_form().
/// `junction` needs only its factor.
at::Tensor loss_increases_of_ranks(const MetricBasis& before, const JunctionMap& in,
                                   const MetricBasis& junction, const JunctionMap& out,
                                   const std::vector<int64_t>& ranks,
                                   SvdDriver driver = SvdDriver::kGesvd);

}  // namespace dotresize
