#include "worker/maps/selection_map.h"

#include <ATen/ATen.h>

namespace dotresize {
namespace {

MomentKinds moments(Basis) { return {}; }

MapInBasis solve(const MapProblem& problem, MapDiagnostics&, const RunStep&) {
  const at::Tensor& gram = problem.statistics.gram;
  const at::Tensor Q = at::eye(gram.size(0), gram.options()).index_select(1, problem.support);
  if (problem.options.basis == Basis::kIdentity) return {Q, Q};
  return {Q, problem.eigenbasis.vectors.index_select(1, problem.support)};
}

}  // namespace

const MapAlgorithm kSelectionMap = {moments, channel_energies, solve};

}  // namespace dotresize
