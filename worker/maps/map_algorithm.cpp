#include "worker/maps/map_algorithm.h"

#include <ATen/ATen.h>

#include <stdexcept>
#include <tuple>
#include <utility>

#include "worker/maps/scoped_threads.h"

namespace dotresize {
namespace {

/// Smallest min|R_ii| / max|R_ii|; below it T has lost a column to rounding.
constexpr double kMinDiagonalRatio = 1e-12;

MapInBasis select_channels(const MapProblem& problem, MapDiagnostics&, const RunStep&) {
  const bool identity = problem.options.basis == Basis::kIdentity;
  const at::Tensor& basis = identity ? problem.statistics.gram : problem.eigenbasis.vectors;
  at::Tensor Q = at::zeros({basis.size(0), problem.support.size(0)}, basis.options());
  Q.scatter_(0, problem.support.unsqueeze(0), 1.0);
  return {Q, identity ? Q : basis.index_select(1, problem.support)};
}

/// Selects the channels of the support and drops the others (docs/method.md, "Maps", end of step
/// 4). The scores are mean squares, in the PCA basis the eigenvalues.
constexpr MapAlgorithm kSelectionMap = {channel_energies, select_channels};

MapInBasis merge_channels(const MapProblem& problem, MapDiagnostics& diagnostics,
                          const RunStep& run) {
  const TransportMap map =
      transport_map(problem.statistics.cost.index_select(1, problem.support), problem.options, run);
  diagnostics.sinkhorn_iterations = map.sinkhorn.iterations;
  diagnostics.sinkhorn_violation = map.sinkhorn.violation;
  diagnostics.sinkhorn_converged = map.sinkhorn.converged;
  const bool identity = problem.options.basis == Basis::kIdentity;
  const at::Tensor M = identity ? map.Q : at::mm(problem.eigenbasis.vectors, map.Q);
  return {map.Q, M, map.R, map.sinkhorn.plan};
}

/// Merges all channels onto the support (docs/method.md, "Maps", steps 3 and 4). The scores are
/// mean squares, or l1 norms in the PCA basis.
constexpr MapAlgorithm kTransportMap = {[](const MapProblem& problem) {
                                          return problem.options.basis == Basis::kPca
                                                     ? problem.statistics.abs_sum
                                                     : channel_energies(problem);
                                        },
                                        merge_channels};

}  // namespace

const MapAlgorithm& map_algorithm(MapKind kind) {
  switch (kind) {
    case MapKind::kSelection:
      return kSelectionMap;
    case MapKind::kTransport:
      return kTransportMap;
  }
  throw std::invalid_argument("no such MapKind");
}

void run_step(const char*, const std::function<void()>& step) { step(); }

at::Tensor channel_energies(const MapProblem& problem) {
  if (problem.options.basis != Basis::kIdentity) return problem.eigenbasis.values;
  const at::Tensor energies = problem.statistics.gram.diagonal();
  const at::Tensor& fisher = problem.statistics.fisher;
  return fisher.defined() ? energies * fisher.diagonal() : energies;
}

// T = argmin ⟨T, C⟩ − λH(T)  (paper, eq. 1),  T = QR,  M = U·Q  (eq. 3)
TransportMap transport_map(at::Tensor cost, const MapOptions& options, const RunStep& run) {
  TransportMap map;
  run("sinkhorn", [&] {
    // Costs are scaled by the largest, so that λ has the same effect for every model
    // (docs/method.md, "Maps"). An all-zero cost has no scale and stays unchanged; every plan has
    // the same cost.
    const at::Tensor largest = cost.max();
    if (largest.item<double>() > 0) cost = cost / largest;
    map.sinkhorn = sinkhorn(std::exchange(cost, {}), options.sinkhorn);
  });
  if (!map.sinkhorn.converged && !options.accept_nonconvergence) {
    throw std::runtime_error(c10::str("Sinkhorn did not converge: after ", map.sinkhorn.iterations,
                                      " iterations a marginal is violated by ",
                                      map.sinkhorn.violation, " in the l1 norm, with lambda ",
                                      options.sinkhorn.lambda, " and tolerance ",
                                      options.sinkhorn.tolerance));
  }
  run("qr", [&] {
    const ScopedThreads threads(options.decomposition_threads);
    std::tie(map.Q, map.R) = at::linalg_qr(map.sinkhorn.plan, "reduced");
    // Householder reflections leave the signs open; diag(R) >= 0 fixes them.
    const at::Tensor signs = at::where(map.R.diagonal() < 0, -at::ones_like(map.R.diagonal()), 1.0);
    map.Q = map.Q.mul_(signs).contiguous();
    map.R.mul_(signs.unsqueeze(1));
    const at::Tensor diagonal = map.R.diagonal();
    const double smallest = diagonal.min().item<double>();
    const double largest = diagonal.max().item<double>();
    if (!(smallest >= kMinDiagonalRatio * largest)) {
      throw std::runtime_error(c10::str(
          "the transport plan is numerically rank-deficient: the smallest diagonal entry of R is ",
          smallest, ", the largest ", largest, "; at least ", kMinDiagonalRatio,
          " of it is needed"));
    }
  });
  return map;
}

}  // namespace dotresize
