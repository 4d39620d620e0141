#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>

#include "worker/maps/map_algorithm.h"

namespace dotresize {

/// A solved map. Diagnostics that only the report needs are computed later, by `describe`.
struct SolvedJunction {
  JunctionSolution solution;
  /// Completes the diagnostics. May run on any thread, once. Owns its inputs.
  std::function<void(MapDiagnostics&)> describe;
};

/// Solves the map of width k of one junction (docs/method.md, "Maps"). `eigenbasis`: of gram/n, or
/// of LᵀGL/n in the metric of the loss; may be undefined in the identity basis. Throws
/// std::runtime_error as the map's algorithm does (map_algorithm.h), and if the statistics are not
/// finite, have no tokens, or come from zero activations only. Errors do not name the junction; the
/// caller adds it.
SolvedJunction solve_map(const JunctionStatistics& statistics, const Eigenbasis& eigenbasis,
                         const MapOptions& options, int64_t width, const RunStep& run = run_step);

/// Returns tr(Mᵀ G M) / tr(G) for an M with orthonormal columns. gram: [d, d], or any multiple of
/// it; M: [d, k]; both float64.
double retained_energy(const at::Tensor& gram, const at::Tensor& M);

/// Returns the indices of the k largest scores, ascending, [k] int64. Ties go to the lower index.
/// scores: [d] float64.
at::Tensor select_support(const at::Tensor& scores, int64_t k);

}  // namespace dotresize
