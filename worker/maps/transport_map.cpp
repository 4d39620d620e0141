#include "worker/maps/transport_map.h"

#include <ATen/ATen.h>

#include <stdexcept>
#include <utility>

#include "worker/maps/describe/spectrum.h"
#include "worker/maps/scoped_threads.h"

// T = argmin ⟨T, C⟩ − λH(T)  (paper, eq. 1),  T = QR,  M = U·Q  (eq. 3)

namespace dotresize {
namespace {

/// Smallest min|R_ii| / max|R_ii|; below it T has lost a column to rounding.
constexpr double kMinDiagonalRatio = 1e-12;

/// Scales costs by the largest, so that λ has the same effect for every model (docs/method.md,
/// "Maps"). An all-zero cost has no scale and stays unchanged; every plan has the same cost.
at::Tensor scale_cost(const at::Tensor& cost) {
  const at::Tensor largest = cost.max();
  return largest.item<double>() > 0 ? cost / largest : cost;
}

/// Decomposes T = QR by Householder reflections, with the signs that make diag(R) >= 0.
std::pair<at::Tensor, at::Tensor> positive_qr(const at::Tensor& T) {
  auto [Q, R] = at::linalg_qr(T, "reduced");
  const at::Tensor diagonal = R.diagonal();
  const at::Tensor signs = at::where(diagonal < 0, -at::ones_like(diagonal), 1.0);
  return {Q.mul_(signs).contiguous(), R.mul_(signs.unsqueeze(1))};
}

void check_rank(const at::Tensor& R) {
  const at::Tensor diagonal = R.diagonal();
  const double smallest = diagonal.min().item<double>();
  const double largest = diagonal.max().item<double>();
  if (!(smallest >= kMinDiagonalRatio * largest)) {
    throw std::runtime_error(c10::str(
        "the transport plan is numerically rank-deficient: the smallest diagonal entry of R is ",
        smallest, ", the largest ", largest, "; at least ", kMinDiagonalRatio, " of it is needed"));
  }
}

void check_convergence(const SinkhornResult& result, const MapOptions& options) {
  if (result.converged || options.accept_nonconvergence) return;
  throw std::runtime_error(c10::str("Sinkhorn did not converge: after ", result.iterations,
                                    " iterations a marginal is violated by ", result.violation,
                                    " in the l1 norm, with lambda ", options.sinkhorn.lambda,
                                    " and tolerance ", options.sinkhorn.tolerance));
}

MomentKinds moments(Basis basis) { return {.abs_sum = basis == Basis::kPca, .cost = true}; }

at::Tensor scores(const MapProblem& problem) {
  return problem.options.basis == Basis::kPca ? problem.statistics.abs_sum
                                              : channel_energies(problem);
}

MapInBasis solve(const MapProblem& problem, MapDiagnostics& diagnostics, const RunStep& run) {
  const TransportMap map =
      transport_map(problem.statistics.cost.index_select(1, problem.support), problem.options, run);
  diagnostics.sinkhorn_iterations = map.sinkhorn.iterations;
  diagnostics.sinkhorn_violation = map.sinkhorn.violation;
  diagnostics.sinkhorn_converged = map.sinkhorn.converged;
  const bool identity = problem.options.basis == Basis::kIdentity;
  const at::Tensor M = identity ? map.Q : at::mm(problem.eigenbasis.vectors, map.Q);
  return {map.Q, M, map.R, map.sinkhorn.plan};
}

}  // namespace

const MapAlgorithm kTransportMap = {moments, scores, solve};

TransportMap transport_map(at::Tensor cost, const MapOptions& options, const RunStep& run) {
  TransportMap map;
  run("sinkhorn", [&] {
    const at::Tensor scaled = scale_cost(std::exchange(cost, {}));
    map.sinkhorn = sinkhorn(scaled, options.sinkhorn);
  });
  check_convergence(map.sinkhorn, options);
  run("qr", [&] {
    const ScopedThreads threads(options.decomposition_threads);
    std::tie(map.Q, map.R) = positive_qr(map.sinkhorn.plan);
    check_rank(map.R);
  });
  return map;
}

}  // namespace dotresize
