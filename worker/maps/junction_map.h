#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <utility>

#include "job/plan/method.h"
#include "job/report/transport_picture.h"
#include "worker/kernels/sinkhorn.h"
#include "worker/kernels/svd.h"
#include "worker/maps/describe/spectrum.h"

namespace dotresize {

/// Options of a map's computation (docs/method.md, "Maps").
struct MapOptions {
  Basis basis = Basis::kPca;
  MapKind kind = MapKind::kTransport;
  Metric metric = Metric::kActivation;
  // Transport only:
  SinkhornOptions sinkhorn = {};
  bool accept_nonconvergence = false;  ///< use the last plan; recorded in MapDiagnostics
  /// Threads of eigen solvers and QR on the CPU. Rounding depends on their number. 0: libtorch's
  /// default.
  int decomposition_threads = 0;
  SvdDriver svd_driver = SvdDriver::kGesvd;  ///< SVD driver on a GPU

  SumsOfPasses sums() const { return sums_of_passes(basis, kind); }
  /// Returns true if M_inv is not the transpose of M (maps/metric.h).
  bool oblique() const { return metric == Metric::kFisher && basis == Basis::kPca; }
};

/// Sums over the calibration tokens of one junction, from all ranks (docs/method.md, "Moments").
/// All float64.
struct JunctionStatistics {
  int64_t tokens = 0;  ///< n
  /// Σ_t x_tᵀ x_t [d, d] in the original basis. In the PCA basis it is needed only in the metric of
  /// the loss, for the diagnostics.
  at::Tensor gram = {};
  at::Tensor abs_sum = {};  ///< Σ_t |z_t| [d] in the map's basis, if the map needs it
  at::Tensor cost = {};     ///< Σ_t |z_ti − z_tj| [d, d] in the map's basis, if the map needs it
  // Metric of the loss only. `fisher`: Σ_t g_tᵀ g_t [d, d] of the gradients, in the identity basis.
  // `metric_factor`: L of the metric (maps/metric.h), in the PCA basis.
  at::Tensor fisher = {};
  at::Tensor metric_factor = {};
};

/// M [d, k], contiguous, with orthonormal columns, and M_inv [k, d] with M_inv·M = I. M_inv is a
/// transposed view of M unless the map is oblique.
struct JunctionMap {
  explicit JunctionMap(at::Tensor map = {}) : M(std::move(map)) {
    if (M.defined()) M_inv = M.t();
  }
  /// Makes an oblique map.
  JunctionMap(at::Tensor map, at::Tensor inverse)
      : M(std::move(map)), M_inv(std::move(inverse)), oblique(true) {}

  /// Returns both matrices in another dtype or on another device.
  JunctionMap to(const at::TensorOptions& options) const {
    return oblique ? JunctionMap(M.to(options), M_inv.to(options)) : JunctionMap(M.to(options));
  }

  at::Tensor M;
  at::Tensor M_inv;
  bool oblique = false;
};

struct MapDiagnostics {
  int64_t effective_rank = 0;
  double retained_energy = 0.0;  ///< tr(Mᵀ G M) / tr(G), for oblique maps too
  EnergyOverRank spectrum = {};  ///< spectrum of the Gram matrix
  // Transport only:
  int64_t sinkhorn_iterations = 0;
  double sinkhorn_violation = 0.0;
  bool sinkhorn_converged = true;
  double qr_condition = 1.0;  ///< 2-norm condition number of R
  /// Picture of the plan. A shared map has it only at the first of its junctions.
  std::optional<TransportPicture> transport = {};
};

struct JunctionSolution {
  JunctionMap map;     ///< float64
  at::Tensor support;  ///< S [k] int64, ascending, in the map's basis
  MapDiagnostics diagnostics;
};

}  // namespace dotresize
