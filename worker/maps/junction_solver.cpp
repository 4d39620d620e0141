#include "worker/maps/junction_solver.h"

#include <ATen/ATen.h>

#include <stdexcept>

#include "base/errors.h"

namespace dotresize {
namespace {

void check_sum(const char* name, const at::Tensor& sum, at::IntArrayRef shape) {
  TORCH_CHECK(sum.defined() && sum.sizes() == shape && sum.scalar_type() == at::kDouble,
              "junction statistics: ", name, " must be float64 of shape ", shape);
  if (!sum.isfinite().all().item<bool>()) {
    throw NonFiniteError(std::string("the junction's statistics are not finite: ") + name);
  }
}

void check(const JunctionStatistics& statistics, const MapOptions& options, int64_t width) {
  TORCH_CHECK(statistics.gram.defined() && statistics.gram.dim() == 2,
              "junction statistics: gram must be a matrix");
  const int64_t d = statistics.gram.size(0);
  TORCH_CHECK(width >= 1 && width <= d, "width must be between 1 and ", d, ", not ", width);
  check_sum("gram", statistics.gram, {d, d});
  const MomentKinds needed = moments_in_basis(options);
  if (needed.cost) check_sum("cost", statistics.cost, {d, d});
  if (needed.abs_sum) check_sum("abs_sum", statistics.abs_sum, {d});
  if (statistics.tokens < 1) throw std::runtime_error("the junction has seen no tokens");
  if (!(statistics.gram.trace().item<double>() > 0)) {
    throw std::runtime_error("all activations of the junction are zero");
  }
}

/// retained_energy of M = U·Q, from the eigenvalues e of the Gram matrix and Q [d, k]:
/// tr(Mᵀ G M) = Σ_i e_i ‖Q_i‖², which takes no product with G.
double retained_in_eigenbasis(const at::Tensor& eigenvalues, const at::Tensor& Q) {
  return ((eigenvalues * Q.square().sum(1)).sum() / eigenvalues.sum()).item<double>();
}

}  // namespace

at::Tensor select_support(const at::Tensor& scores, int64_t k) {
  TORCH_CHECK(scores.dim() == 1, "scores must be a vector, not ", scores.sizes());
  TORCH_CHECK(k >= 0 && k <= scores.size(0), "cannot select ", k, " of ", scores.size(0));
  const at::Tensor best_first =
      std::get<1>(scores.sort(/*stable=*/true, /*dim=*/0, /*descending=*/true));
  return std::get<0>(best_first.narrow(0, 0, k).sort());
}

double retained_energy(const at::Tensor& gram, const at::Tensor& M) {
  return ((at::mm(gram, M) * M).sum() / gram.trace()).item<double>();
}

JunctionSolution solve_junction(const JunctionStatistics& statistics, const Eigenbasis& eigenbasis,
                                const MapOptions& options, int64_t width, const RunStep& run) {
  check(statistics, options, width);
  const MapAlgorithm& algorithm = map_algorithm(options.kind);
  MapProblem problem{statistics, eigenbasis, options};
  JunctionSolution solution;
  solution.support = problem.support = select_support(algorithm.scores(problem), width);

  MapDiagnostics& diagnostics = solution.diagnostics;
  const MapInBasis map = algorithm.solve(problem, diagnostics, run);
  solution.map = {map.M.contiguous(), map.M.t().contiguous()};
  diagnostics.effective_rank = effective_rank(eigenbasis.values);
  diagnostics.retained_energy = options.basis == Basis::kPca
                                    ? retained_in_eigenbasis(eigenbasis.values, map.Q)
                                    : retained_energy(statistics.gram, map.M);
  return solution;
}

}  // namespace dotresize
