#pragma once

#include <ATen/core/Tensor.h>

#include <functional>

#include "worker/maps/junction_map.h"
#include "worker/maps/moments.h"
#include "worker/maps/spectrum.h"

namespace dotresize {

/// Runs one step of a map's computation. `phase` is its name in reports: "sinkhorn".
using RunStep = std::function<void(const char* phase, const std::function<void()>& step)>;

/// Runs the step and nothing else.
void run_step(const char* phase, const std::function<void()>& step);

/// A junction whose support is known.
struct MapProblem {
  const JunctionStatistics& statistics;
  const Eigenbasis& eigenbasis;  ///< of gram/n; its vectors U are undefined in the identity basis
  const MapOptions& options;
  at::Tensor support = {};  ///< S [k] int64
};

/// A map in the coordinates of its basis and in the original ones.
struct MapInBasis {
  at::Tensor Q;  ///< [d, k] float64
  at::Tensor M;  ///< U·Q
  // If Q is that of a decomposition T = QR:
  at::Tensor R = {};  ///< [k, k]
  at::Tensor T = {};  ///< [d, k], the transport plan
};

/// How a kind of map is computed. map_algorithm() has one for each MapKind.
struct MapAlgorithm {
  /// The sums over tokens in the map's basis that it needs beside the Gram matrix.
  MomentKinds (*moments)(Basis basis);
  /// The scores [d] of which the support is the largest (docs/method.md, "Maps", step 2). The
  /// support is still undefined.
  at::Tensor (*scores)(const MapProblem& problem);
  /// Steps with a phase of their own go through `run`; the diagnostics get what they find on the
  /// way.
  MapInBasis (*solve)(const MapProblem& problem, MapDiagnostics& diagnostics, const RunStep& run);
};

const MapAlgorithm& map_algorithm(MapKind kind);

/// The sums that a map needs in its basis, and whether they take a second pass over the tokens: the
/// basis must be known first.
MomentKinds moments_in_basis(const MapOptions& options);
bool needs_second_pass(const MapOptions& options);

/// The mean squares of the channels of the map's basis, up to a common factor; in the metric of the
/// loss those of channels that are not rotated times their mean squared gradients.
at::Tensor channel_energies(const MapProblem& problem);

}  // namespace dotresize
