#include "worker/maps/map_algorithm.h"

#include <stdexcept>

#include "worker/maps/selection_map.h"
#include "worker/maps/transport_map.h"

namespace dotresize {

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
  return problem.options.basis == Basis::kIdentity ? problem.statistics.gram.diagonal()
                                                   : problem.eigenbasis.values;
}

}  // namespace dotresize
