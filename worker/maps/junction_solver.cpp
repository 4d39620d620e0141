#include "worker/maps/junction_solver.h"

#include <ATen/ATen.h>

#include <sstream>
#include <stdexcept>
#include <utility>

#include "worker/maps/condition.h"
#include "worker/maps/support.h"

// T = argmin ⟨T, C⟩ − λH(T),  T = QR,  M = U Q,  M_inv = R T⁺ Uᵀ = Qᵀ Uᵀ = Mᵀ   (paper, eq. 1 and
// 2)

namespace dotresize {
namespace {

/// min|R_ii| / max|R_ii| below which T has lost a column to rounding.
constexpr double kRankTolerance = 1e-12;

template <class... Parts>
[[noreturn]] void fail(const Parts&... parts) {
  std::ostringstream message;
  (message << ... << parts);
  throw std::runtime_error(message.str());
}

/// A cost of nothing but zeros has no scale: it stays as it is, and every plan costs the same.
at::Tensor scale_cost(const at::Tensor& cost, MapOptions::CostScale scale) {
  if (scale == MapOptions::CostScale::kNone) return cost;
  const at::Tensor unit = scale == MapOptions::CostScale::kMax ? cost.max() : cost.mean();
  return unit.item<double>() > 0 ? cost / unit : cost;
}

/// T = QR by Householder reflections, with the signs that make diag(R) >= 0.
std::pair<at::Tensor, at::Tensor> positive_qr(const at::Tensor& T) {
  const auto [Q, R] = at::linalg_qr(T, "reduced");
  const at::Tensor diagonal = R.diagonal();
  const at::Tensor signs = at::where(diagonal < 0, -at::ones_like(diagonal), 1.0);
  return {Q * signs, signs.unsqueeze(1) * R};
}

void check_rank(const at::Tensor& R) {
  const at::Tensor diagonal = R.diagonal();
  const double smallest = diagonal.min().item<double>();
  const double largest = diagonal.max().item<double>();
  if (!(smallest >= kRankTolerance * largest)) {
    fail("the transport plan is numerically rank-deficient: the smallest diagonal entry of R is ",
         smallest, ", the largest ", largest, "; at least ", kRankTolerance, " of it is needed");
  }
}

void check_convergence(const SinkhornResult& result, const MapOptions& options) {
  if (result.converged || options.accept_nonconvergence) return;
  fail("Sinkhorn did not converge: after ", result.iterations,
       " iterations a marginal is violated by ", result.violation, " in the l1 norm, with lambda ",
       options.sinkhorn.lambda, " and tolerance ", options.sinkhorn.tolerance);
}

void check_shape(const char* name, const at::Tensor& tensor, at::IntArrayRef shape) {
  TORCH_CHECK(tensor.defined() && tensor.sizes() == shape && tensor.scalar_type() == at::kDouble,
              "junction statistics: ", name, " must be float64 of shape ", shape);
  if (!tensor.isfinite().all().item<bool>()) {
    fail("the junction's statistics are not finite: ", name);
  }
}

void check(const JunctionStatistics& statistics, const MapOptions& options) {
  TORCH_CHECK(statistics.gram.defined() && statistics.gram.dim() == 2,
              "junction statistics: gram must be a matrix");
  const int64_t d = statistics.gram.size(0);
  TORCH_CHECK(options.width >= 1 && options.width <= d, "width must be between 1 and ", d, ", not ",
              options.width);
  check_shape("gram", statistics.gram, {d, d});
  if (options.transport) check_shape("cost", statistics.cost, {d, d});
  if (options.transport && options.pca) check_shape("abs_sum", statistics.abs_sum, {d});
  if (statistics.tokens < 1) fail("the junction has seen no tokens");
  if (!(statistics.gram.trace().item<double>() > 0)) {
    fail("all activations of the junction are zero");
  }
}

/// What a channel of the map's basis counts for (method.md, "Maps", step 2). Sums serve where the
/// mean, or its root, is meant: the order is the same.
at::Tensor scores(const JunctionStatistics& statistics, const Eigenbasis& basis,
                  const MapOptions& options) {
  if (!options.pca) return statistics.gram.diagonal();
  return options.transport ? statistics.abs_sum : basis.values;
}

/// M [d, k] in the map's basis, and what Sinkhorn and QR have to say of it.
at::Tensor solve_transport(const at::Tensor& cost, const MapOptions& options,
                           MapDiagnostics& diagnostics, PhaseClock* clock) {
  const TransportMap transport = transport_map(cost, options, clock);
  diagnostics.sinkhorn_iterations = transport.sinkhorn.iterations;
  diagnostics.sinkhorn_violation = transport.sinkhorn.violation;
  diagnostics.sinkhorn_converged = transport.sinkhorn.converged;
  const PhaseClock::Scope scope(clock, "condition");
  diagnostics.qr_condition = triangular_condition(transport.R);
  return transport.Q;
}

/// retained_energy of M = U·Q, from the eigenvalues e of the Gram matrix and Q [d, k]:
/// tr(Mᵀ G M) = Σ_i e_i ‖Q_i‖², a product with G less.
double retained_in_eigenbasis(const at::Tensor& eigenvalues, const at::Tensor& Q) {
  return ((eigenvalues * Q.square().sum(1)).sum() / eigenvalues.sum()).item<double>();
}

}  // namespace

double retained_energy(const at::Tensor& gram, const at::Tensor& M) {
  return ((at::mm(gram, M) * M).sum() / gram.trace()).item<double>();
}

TransportMap transport_map(const at::Tensor& cost, const MapOptions& options, PhaseClock* clock) {
  const SinkhornResult result = [&] {
    const PhaseClock::Scope scope(clock, "sinkhorn");
    return sinkhorn(scale_cost(cost, options.cost_scale), options.sinkhorn);
  }();
  check_convergence(result, options);
  const PhaseClock::Scope scope(clock, "qr");
  const auto [Q, R] = positive_qr(result.plan);
  check_rank(R);
  return {result.plan, Q, R, result};
}

JunctionSolution solve_junction(const JunctionStatistics& statistics, const Eigenbasis& basis,
                                const MapOptions& options, PhaseClock* clock) {
  check(statistics, options);
  JunctionSolution solution;
  MapDiagnostics& diagnostics = solution.diagnostics;
  solution.support = select_support(scores(statistics, basis, options), options.width);

  const at::Tensor map = options.transport
                             ? solve_transport(statistics.cost.index_select(1, solution.support),
                                               options, diagnostics, clock)
                             : at::eye(statistics.gram.size(0), statistics.gram.options())
                                   .index_select(1, solution.support);
  solution.map.M = (!options.pca        ? map
                    : options.transport ? at::mm(basis.vectors, map)
                                        : basis.vectors.index_select(1, solution.support))
                       .contiguous();
  solution.map.M_inv = solution.map.M.t().contiguous();

  diagnostics.effective_rank = effective_rank(basis.values);
  diagnostics.retained_energy = options.pca ? retained_in_eigenbasis(basis.values, map)
                                            : retained_energy(statistics.gram, solution.map.M);
  return solution;
}

}  // namespace dotresize
