#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <utility>

#include "job/plan/method.h"
#include "worker/kernels/sinkhorn.h"

namespace dotresize {

/// How a map is computed (docs/method.md, "Maps").
struct MapOptions {
  Basis basis = Basis::kPca;
  MapKind kind = MapKind::kTransport;
  // Transport only:
  CostScale cost_scale = CostScale::kMax;
  SinkhornOptions sinkhorn = {};
  bool accept_nonconvergence = false;  ///< use the last plan; MapDiagnostics says so
  /// Threads of eigen solvers and QR on the CPU, whose rounding depends on their number; 0: as many
  /// as libtorch has.
  int decomposition_threads = 0;
};

/// Sums over the calibration tokens of one junction, of all ranks (docs/method.md, "Moments"). All
/// float64.
struct JunctionStatistics {
  int64_t tokens = 0;       ///< n
  at::Tensor gram = {};     ///< Σ_t x_tᵀ x_t [d, d] in the original basis; not needed in another one
  at::Tensor abs_sum = {};  ///< Σ_t |z_t| [d] in the map's basis, if the map needs it
  at::Tensor cost = {};     ///< Σ_t |z_ti − z_tj| [d, d] in the map's basis, likewise
};

/// M [d, k], with orthonormal columns, contiguous, and M_inv [k, d], a view of M: its transpose.
struct JunctionMap {
  explicit JunctionMap(at::Tensor map = {}) : M(std::move(map)) {
    if (M.defined()) M_inv = M.t();
  }
  at::Tensor M;
  at::Tensor M_inv;
};

struct MapDiagnostics {
  int64_t effective_rank = 0;
  double retained_energy = 0.0;  ///< tr(Mᵀ G M) / tr(G)
  // Transport only:
  int64_t sinkhorn_iterations = 0;
  double sinkhorn_violation = 0.0;
  bool sinkhorn_converged = true;
  double qr_condition = 1.0;  ///< 2-norm condition of R
  /// Whether the costs are sums in half precision (kernels/l1_cost.h), and the error of such
  /// sums on a sample if it was measured. Set by the caller of solve_junction, who chose it.
  bool half_cost = false;
  std::optional<double> half_cost_error = {};
};

struct JunctionSolution {
  JunctionMap map;  ///< float64
  at::Tensor support;  ///< S [k] int64, ascending, in the map's basis
  MapDiagnostics diagnostics;
};

}  // namespace dotresize
