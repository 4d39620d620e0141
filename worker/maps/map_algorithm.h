#pragma once

#include <ATen/core/Tensor.h>

#include <functional>

#include "worker/maps/describe/spectrum.h"
#include "worker/maps/junction_map.h"

namespace dotresize {

/// Runs one step of a map's computation. `phase`: name of the step in reports, such as "sinkhorn".
using RunStep = std::function<void(const char* phase, const std::function<void()>& step)>;

/// Runs the step without timing it.
void run_step(const char* phase, const std::function<void()>& step);

/// Input of a map's computation.
struct MapProblem {
  const JunctionStatistics& statistics;
  const Eigenbasis& eigenbasis;  ///< eigenbasis of gram/n; U is undefined in the identity basis
  const MapOptions& options;
  at::Tensor support = {};  ///< S [k] int64; undefined until the scores are computed
};

/// A map in its own basis and in the original one.
struct MapInBasis {
  at::Tensor Q;  ///< [d, k] float64
  at::Tensor M;  ///< U·Q
  // Set if Q comes from a decomposition T = QR:
  at::Tensor R = {};  ///< [k, k]
  at::Tensor T = {};  ///< [d, k], the transport plan
};

/// Functions that compute one kind of map from its sums (kMapKinds). map_algorithm() returns them
/// for each MapKind.
struct MapAlgorithm {
  /// Returns scores [d]; the support is the k largest (docs/method.md, "Maps", step 2). The support
  /// is undefined at that point.
  at::Tensor (*scores)(const MapProblem& problem);
  /// Computes the map. Steps with a phase of their own go through `run`; by-products go to the
  /// diagnostics.
  MapInBasis (*solve)(const MapProblem& problem, MapDiagnostics& diagnostics, const RunStep& run);
};

const MapAlgorithm& map_algorithm(MapKind kind);

/// Returns the mean squares of the channels in the map's basis, up to a common factor. In the
/// identity basis with the metric of the loss they are multiplied by the mean squared gradients.
at::Tensor channel_energies(const MapProblem& problem);

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
