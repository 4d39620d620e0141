#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>

#include "worker/maps/map_algorithm.h"

namespace dotresize {

/// A map, and what the report wants to know about it besides: nothing else waits for that.
struct SolvedJunction {
  JunctionSolution solution;
  /// Completes the diagnostics; on any thread, once. Holds what it needs.
  std::function<void(MapDiagnostics&)> describe;
};

/// One junction from its statistics to its map of width k (docs/method.md, "Maps"). `eigenbasis` is
/// that of gram/n, in the metric of the loss of LᵀGL/n; in the identity basis it may be undefined.
/// Throws std::runtime_error as the map's algorithm does (transport_map.h), and if statistics are
/// not finite, empty or of zero activations alone. Errors do not name the junction: the caller adds
/// that.
SolvedJunction solve_map(const JunctionStatistics& statistics, const Eigenbasis& eigenbasis,
                         const MapOptions& options, int64_t width, const RunStep& run = run_step);

/// Likewise, with all diagnostics.
JunctionSolution solve_junction(const JunctionStatistics& statistics, const Eigenbasis& eigenbasis,
                                const MapOptions& options, int64_t width);

/// tr(Mᵀ G M) / tr(G), M having orthonormal columns. gram: [d, d], or any multiple of it; M: [d,
/// k]; both float64.
double retained_energy(const at::Tensor& gram, const at::Tensor& M);

/// Indices of the k largest scores, ascending; a tie goes to the lower index. scores: [d] float64.
/// Returns [k] int64.
at::Tensor select_support(const at::Tensor& scores, int64_t k);

}  // namespace dotresize
