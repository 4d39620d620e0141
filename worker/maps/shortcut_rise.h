#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "worker/maps/junction_map.h"
#include "worker/maps/predicted_rise.h"

namespace dotresize {

/// The map of width k that the decomposition gives.
JunctionMap map_of(const MetricBasis& junction, int64_t k);

/// By how much cutting the shortcut between two junctions to each of `ranks` is predicted to raise
/// the loss of a token, [ranks] float64 (docs/method.md, "All widths by loss"). `in` and `out`, of
/// widths k_in and k_out, are maps of the dense model's decompositions in the metric of the loss.
/// If k_out < k_in, a shortcut has k_in - k_out more than its rank, as in shortcut_form(). Of the
/// second junction the factor alone is needed.
at::Tensor rises_of_ranks(const MetricBasis& before, const JunctionMap& in,
                          const MetricBasis& junction, const JunctionMap& out,
                          const std::vector<int64_t>& ranks, SvdDriver driver = SvdDriver::kGesvd);

}  // namespace dotresize
