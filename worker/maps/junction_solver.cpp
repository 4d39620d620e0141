#include "worker/maps/junction_solver.h"

#include <ATen/ATen.h>

#include <stdexcept>
#include <utility>

#include "base/errors.h"
#include "worker/maps/describe/transport_picture.h"
#include "worker/maps/metric.h"
#include "worker/maps/scoped_threads.h"

namespace dotresize {
namespace {

void check_sum(const char* name, const at::Tensor& sum, at::IntArrayRef shape) {
  TORCH_CHECK(sum.defined() && sum.sizes() == shape && sum.scalar_type() == at::kDouble,
              "junction statistics: ", name, " must be float64 of shape ", shape);
  if (!sum.isfinite().all().item<bool>()) {
    throw NonFiniteError(std::string("the junction's statistics are not finite: ") + name);
  }
}

/// Returns the function that completes the diagnostics. They describe the activations, so in the
/// metric of the loss the eigenvalues of the decomposition cannot be used. With eigenvalues e of
/// the Gram matrix and M = U·Q, tr(Mᵀ G M) = Σ_i e_i ‖Q_i‖², without a product with G. So only the
/// norms of Q's rows are kept, to save memory for the plan, which is freed first.
std::function<void(MapDiagnostics&)> describe_with(const JunctionStatistics& statistics,
                                                   const Eigenbasis& eigenbasis,
                                                   const MapOptions& options, const MapInBasis& map,
                                                   const at::Tensor& M, const at::Tensor& support) {
  const bool decomposed = options.basis == Basis::kPca && !options.oblique();
  return
      [T = map.T, support, R = map.R, M,
       row_norms = decomposed ? at::linalg_vector_norm(map.Q, 2, at::IntArrayRef{1}) : at::Tensor(),
       gram = decomposed ? at::Tensor() : statistics.gram,
       values = options.oblique() ? at::Tensor()
                                  : eigenbasis.values](MapDiagnostics& diagnostics) mutable {
        if (T.defined()) diagnostics.transport = transport_picture(std::exchange(T, {}), support);
        if (R.defined()) diagnostics.qr_condition = triangular_condition(R);
        const at::Tensor eigenvalues = values.defined() ? values : spectrum(gram);
        diagnostics.effective_rank = effective_rank(eigenvalues);
        diagnostics.spectrum = energy_over_rank(eigenvalues);
        diagnostics.retained_energy =
            gram.defined() ? retained_energy(gram, M)
                           : ((values * row_norms.square()).sum() / values.sum()).item<double>();
      };
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

SolvedJunction solve_map(const JunctionStatistics& statistics, const Eigenbasis& eigenbasis,
                         const MapOptions& options, int64_t width, const RunStep& run) {
  const at::Tensor& gram = statistics.gram;
  const at::Tensor& basis = options.basis == Basis::kPca ? eigenbasis.vectors : gram;
  TORCH_CHECK(basis.defined(), "a junction needs a Gram matrix, or its eigenbasis");
  const int64_t d = basis.size(0);
  TORCH_CHECK(width >= 1 && width <= d, "width must be between 1 and ", d, ", not ", width);
  if (gram.defined()) check_sum("gram", gram, {d, d});
  const SumsOfPasses sums = options.sums();
  if (sums.in_basis().cost) check_sum("cost", statistics.cost, {d, d});
  if (sums.in_basis().abs_sum) check_sum("abs_sum", statistics.abs_sum, {d});
  if (options.oblique()) check_sum("metric_factor", statistics.metric_factor, {d, d});
  if (options.metric == Metric::kFisher && !options.oblique()) {
    check_sum("fisher", statistics.fisher, {d, d});
  }
  if (statistics.tokens < 1) throw std::runtime_error("the junction has seen no tokens");
  const at::Tensor energy = gram.defined() ? gram.trace() : eigenbasis.values.sum();
  if (!(energy.item<double>() > 0)) {
    throw std::runtime_error("all activations of the junction are zero");
  }

  const MapAlgorithm& algorithm = map_algorithm(options.kind);
  MapProblem problem{statistics, eigenbasis, options};
  SolvedJunction solved;
  JunctionSolution& solution = solved.solution;
  solution.support = problem.support = select_support(algorithm.scores(problem), width);
  const MapInBasis map = algorithm.solve(problem, solution.diagnostics, run);
  if (options.oblique()) {
    run("qr", [&] {
      const ScopedThreads threads(options.decomposition_threads);
      solution.map = map_from_metric(statistics.metric_factor, map.M);
    });
  } else {
    solution.map = JunctionMap(map.M.contiguous());
  }
  solved.describe =
      describe_with(statistics, eigenbasis, options, map, solution.map.M, solution.support);
  return solved;
}

}  // namespace dotresize
