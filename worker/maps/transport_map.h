#pragma once

#include <ATen/core/Tensor.h>

#include "worker/kernels/sinkhorn.h"
#include "worker/maps/map_algorithm.h"

namespace dotresize {

/// All channels merged onto the support (docs/method.md, "Maps", steps 3 and 4). The scores are
/// mean squares, or in the PCA basis l1 norms.
extern const MapAlgorithm kTransportMap;

/// The plan T and T = Q·R.
struct TransportMap {
  SinkhornResult sinkhorn;  ///< its plan is T [d, k]
  at::Tensor Q;             ///< [d, k], orthonormal columns
  at::Tensor R;             ///< [k, k], upper triangular, diag >= 0
};

/// cost: [d, k] float64, as summed; it is scaled here. Throws std::runtime_error if Sinkhorn does
/// not converge (iterations and violation in the text), unless that is accepted, and if T is
/// numerically rank-deficient: min|R_ii| < 1e-12·max|R_ii|, both in the text. A cost of nothing but
/// zeros stays unscaled: its plan is uniform, hence rank-deficient if k > 1. The steps are
/// "sinkhorn" and "qr".
TransportMap transport_map(at::Tensor cost, const MapOptions& options,
                           const RunStep& run = run_step);

}  // namespace dotresize
