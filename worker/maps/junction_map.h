#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <utility>

#include "job/plan/method.h"
#include "job/report/transport_picture.h"
#include "worker/kernels/sinkhorn.h"
#include "worker/kernels/svd.h"
#include "worker/maps/spectrum.h"

namespace dotresize {

/// How a map is computed (docs/method.md, "Maps").
struct MapOptions {
  Basis basis = Basis::kPca;
  MapKind kind = MapKind::kTransport;
  Metric metric = Metric::kActivation;
  // Transport only:
  SinkhornOptions sinkhorn = {};
  bool accept_nonconvergence = false;  ///< use the last plan; MapDiagnostics says so
  /// Threads of eigen solvers and QR on the CPU, whose rounding depends on their number; 0: as many
  /// as libtorch has.
  int decomposition_threads = 0;
  SvdDriver svd_driver = SvdDriver::kGesvd;  ///< of singular values on a GPU

  /// M_inv is not the transpose of M (maps/metric.h).
  bool oblique() const { return metric == Metric::kFisher && basis == Basis::kPca; }
};

/// Sums over the calibration tokens of one junction, of all ranks (docs/method.md, "Moments"). All
/// float64.
struct JunctionStatistics {
  int64_t tokens = 0;  ///< n
  /// Σ_t x_tᵀ x_t [d, d] in the original basis; not needed in another one, unless in the metric of
  /// the loss, for the diagnostics.
  at::Tensor gram = {};
  at::Tensor abs_sum = {};  ///< Σ_t |z_t| [d] in the map's basis, if the map needs it
  at::Tensor cost = {};     ///< Σ_t |z_ti − z_tj| [d, d] in the map's basis, likewise
  // In the metric of the loss: Σ_t g_tᵀ g_t [d, d] of the gradients in the identity basis; in the
  // PCA basis, which is then that of the metric, its factor L (maps/metric.h).
  at::Tensor fisher = {};
  at::Tensor metric_factor = {};
};

/// M [d, k], with orthonormal columns, contiguous, and M_inv [k, d] with M_inv·M = I: a view of M,
/// its transpose, unless the map is oblique.
struct JunctionMap {
  explicit JunctionMap(at::Tensor map = {}) : M(std::move(map)) {
    if (M.defined()) M_inv = M.t();
  }
  /// An oblique one.
  JunctionMap(at::Tensor map, at::Tensor inverse)
      : M(std::move(map)), M_inv(std::move(inverse)), oblique(true) {}

  /// Both matrices in another dtype or on another device.
  JunctionMap to(const at::TensorOptions& options) const {
    return oblique ? JunctionMap(M.to(options), M_inv.to(options)) : JunctionMap(M.to(options));
  }

  at::Tensor M;
  at::Tensor M_inv;
  bool oblique = false;
};

struct MapDiagnostics {
  int64_t effective_rank = 0;
  double retained_energy = 0.0;  ///< tr(Mᵀ G M) / tr(G), also of an oblique map
  EnergyOverRank spectrum = {};  ///< of the Gram matrix
  // Transport only:
  int64_t sinkhorn_iterations = 0;
  double sinkhorn_violation = 0.0;
  bool sinkhorn_converged = true;
  double qr_condition = 1.0;  ///< 2-norm condition of R
  /// Of a map that others share, with the first of its junctions alone.
  std::optional<TransportPicture> transport = {};
  /// Whether the costs are sums in half precision (kernels/l1_cost.h), and the error of such
  /// sums on a sample if it was measured. Set by the caller of solve_junction, who chose it.
  bool half_cost = false;
  std::optional<double> half_cost_error = {};
};

struct JunctionSolution {
  JunctionMap map;     ///< float64
  at::Tensor support;  ///< S [k] int64, ascending, in the map's basis
  MapDiagnostics diagnostics;
};

}  // namespace dotresize
