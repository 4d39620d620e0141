#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <string>

#include "base/phase_clock.h"
#include "worker/kernels/sinkhorn.h"
#include "worker/maps/basis.h"

namespace dotresize {

/// The four methods as data (method.md, table of methods).
struct MapOptions {
  bool pca = true;        ///< basis: eigenvectors of the Gram matrix, else the identity
  bool transport = true;  ///< merge by optimal transport, else select the support
  int64_t width = 0;      ///< k
  enum class CostScale { kMax, kMean, kNone } cost_scale = CostScale::kMax;
  SinkhornOptions sinkhorn = {};
  bool accept_nonconvergence = false;  ///< return a map all the same; see MapDiagnostics::converged
};

/// What the calibration tokens say of one junction, summed over all ranks.
struct JunctionStatistics {
  int64_t tokens = 0;  ///< n
  at::Tensor gram;     ///< Σ_t x_tᵀ x_t [d, d] float64 of the original basis
  at::Tensor abs_sum;  ///< Σ_t |z_t| [d] float64 in the map's basis; pca with transport only
  at::Tensor cost;     ///< Σ_t |z_ti − z_tj| [d, d] float64 in the map's basis; transport only
};

/// M [d, k] and M_inv [k, d], float64, orthonormal columns and rows. Two matrices on purpose: a map
/// need not be orthogonal.
struct JunctionMap {
  at::Tensor M;
  at::Tensor M_inv;
};

struct MapDiagnostics {
  int64_t effective_rank = 0;
  double retained_energy = 0.0;  ///< tr(Mᵀ G M) / tr(G)
  // transport only:
  int64_t sinkhorn_iterations = 0;
  double sinkhorn_violation = 0.0;
  bool sinkhorn_converged = true;
  double qr_condition = 1.0;  ///< 2-norm condition of R
  /// Costs in half precision (kernels/half_l1_cost.h): whether they were taken, and their error on
  /// a sample where it was measured. The caller of solve_junction knows.
  bool half_cost = false;
  std::optional<double> half_cost_error = {};
};

struct JunctionSolution {
  JunctionMap map;
  at::Tensor support;  ///< S [k] int64, ascending, in the map's basis
  MapDiagnostics diagnostics;
};

/// The transport map of step 3 and 4 alone: T = QR.
struct TransportMap {
  at::Tensor T;  ///< [d, k]
  at::Tensor Q;  ///< [d, k], orthonormal columns
  at::Tensor R;  ///< [k, k], upper triangular, diag >= 0
  SinkhornResult sinkhorn;
};

/// cost: [d, k] float64 as summed; it is scaled here. Throws std::runtime_error on non-convergence
/// (iterations and violation in the text) unless accepted, and on a numerically rank-deficient T:
/// min|R_ii| < 1e-12·max|R_ii|, both in the text. A cost of zeros alone is left unscaled: its plan
/// is uniform, thus rank-deficient where k > 1.
/// Books the phases "sinkhorn" and "qr", where there is a clock.
TransportMap transport_map(const at::Tensor& cost, const MapOptions& options,
                           PhaseClock* clock = nullptr);

/// tr(Mᵀ G M) / tr(G). gram: [d, d], or any multiple of it; M: [d, k]; both float64.
double retained_energy(const at::Tensor& gram, const at::Tensor& M);

/// Solves one junction from its statistics. `basis` is the eigenbasis of gram/n; its vectors are
/// used by the pca methods, its values by the diagnostics of all. Pure; throws std::runtime_error
/// as transport_map does, and where statistics are not finite, empty or of zero activations alone.
/// Errors do not name the junction: the caller adds that. Books the phases "sinkhorn", "qr"
/// and "condition", where there is a clock.
JunctionSolution solve_junction(const JunctionStatistics& statistics, const Eigenbasis& basis,
                                const MapOptions& options, PhaseClock* clock = nullptr);

}  // namespace dotresize
