#pragma once

#include <ATen/core/Tensor.h>

#include "worker/kernels/sinkhorn.h"
#include "worker/maps/map_algorithm.h"

namespace dotresize {

/// Merges all channels onto the support (docs/method.md, "Maps", steps 3 and 4). The scores are
/// mean squares, or l1 norms in the PCA basis.
extern const MapAlgorithm kTransportMap;

/// Plan T and its decomposition T = Q·R.
struct TransportMap {
  SinkhornResult sinkhorn;  ///< sinkhorn.plan is T [d, k]
  at::Tensor Q;             ///< [d, k], orthonormal columns
  at::Tensor R;             ///< [k, k], upper triangular, diag >= 0
};

/// Computes the map. cost: [d, k] float64, unscaled sums. Throws std::runtime_error if Sinkhorn
/// does not converge (text: iterations and violation), unless that is accepted, and if T is
/// numerically rank-deficient: min|R_ii| < 1e-12·max|R_ii| (text: both). An all-zero cost stays
/// unscaled: its plan is uniform, hence rank-deficient if k > 1. The steps are "sinkhorn" and "qr".
TransportMap transport_map(at::Tensor cost, const MapOptions& options,
                           const RunStep& run = run_step);

}  // namespace dotresize
