#include "worker/maps/map_algorithm.h"

#include <ATen/ATen.h>

#include <stdexcept>

#include "worker/maps/transport_map.h"

namespace dotresize {
namespace {

MomentKinds moments(Basis) { return {}; }

MapInBasis solve(const MapProblem& problem, MapDiagnostics&, const RunStep&) {
  const bool identity = problem.options.basis == Basis::kIdentity;
  const at::Tensor& basis = identity ? problem.statistics.gram : problem.eigenbasis.vectors;
  at::Tensor Q = at::zeros({basis.size(0), problem.support.size(0)}, basis.options());
  Q.scatter_(0, problem.support.unsqueeze(0), 1.0);
  return {Q, identity ? Q : basis.index_select(1, problem.support)};
}

/// Selects the channels of the support and drops the others (docs/method.md, "Maps", end of step
/// 4). The scores are mean squares, in the PCA basis the eigenvalues.
constexpr MapAlgorithm kSelectionMap = {moments, channel_energies, solve};

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

MomentKinds moments_in_basis(const MapOptions& options) {
  return map_algorithm(options.kind).moments(options.basis);
}

bool needs_second_pass(const MapOptions& options) {
  const MomentKinds kinds = moments_in_basis(options);
  return options.basis != Basis::kIdentity && (kinds.gram || kinds.abs_sum || kinds.cost);
}

void run_step(const char*, const std::function<void()>& step) { step(); }

at::Tensor channel_energies(const MapProblem& problem) {
  if (problem.options.basis != Basis::kIdentity) return problem.eigenbasis.values;
  const at::Tensor energies = problem.statistics.gram.diagonal();
  const at::Tensor& fisher = problem.statistics.fisher;
  return fisher.defined() ? energies * fisher.diagonal() : energies;
}

}  // namespace dotresize
