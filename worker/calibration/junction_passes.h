#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/phase_clock.h"
#include "worker/maps/describe/spectrum.h"
#include "worker/maps/junction_map.h"
#include "worker/maps/junction_solver.h"
#include "worker/maps/moments.h"

namespace dotresize {

// Phases of one junction, from its activations to its map (docs/method.md, "Moments" and "Maps"):
//
//   FirstPass ── finish ──► DecomposedJunction ─┬─ solve ──► JunctionSolution
//                                 └─ rotation ──► CostSums of a second pass
//
// kMapKinds (job/plan/method.h) says which sums each pass takes; without sums there is no second
// pass. Everything is computed on the junction's device. Errors name the junction.

/// Results of a phase by name, as the journal stores them.
using NamedTensors = std::map<std::string, at::Tensor>;

/// Parameters of all phases of one junction. References outlive the phases.
struct JunctionSetup {
  int64_t junction = 0;
  int64_t hidden_size = 0;  ///< d
  const MapOptions& map;
  PhaseClock& clock;
  at::Device device = at::kCPU;
  std::optional<SumBounds> reproducible = {};  ///< as in MomentOptions
};

/// Sums of costs and l1 norms in the basis of the map: part of the first pass, or the second pass.
struct CostSums {
  /// rotation: U [d, d] float32 of a second pass; undefined: the map's basis is the original one.
  explicit CostSums(const JunctionSetup& setup, at::Tensor rotation = {});
  /// Restores finished sums from tensors().
  CostSums(const JunctionSetup& setup, const NamedTensors& tensors);

  /// x: [..., d] float32 in the original basis.
  void add(const at::Tensor& x);
  /// Adds the sums of another junction, multiplied by `scale`.
  void add_scaled(const CostSums& other, double scale);
  NamedTensors tensors() const;
  /// Names of the tensors that hold these sums; none if there are no sums.
  static std::vector<std::string> names(const MapSums& sums);

  JunctionSetup setup;
  Moments moments;
  at::Tensor rotation;
};

/// A junction after its first pass. In the PCA basis it holds the eigenbasis, kept on the host; in
/// the identity basis it holds the sums.
struct DecomposedJunction {
  /// Restores the junction from tensors().
  DecomposedJunction(const JunctionSetup& setup, int64_t tokens, const NamedTensors& tensors);

  /// Basis of a second pass: U [d, d] float32 on the junction's device. In the metric of the loss
  /// it is L·B, where B is the eigenbasis of LᵀGL (maps/metric.h).
  at::Tensor rotation() const;
  NamedTensors tensors() const;
  /// Solves the map. `second`: the finished second pass over all tokens, if the map needs one.
  SolvedJunction solve(int64_t width, std::optional<CostSums> second) &&;

  JunctionSetup setup;
  int64_t tokens;
  /// Gram matrix: in the identity basis, or on the host in the metric of the loss.
  at::Tensor gram;
  at::Tensor fisher;  ///< Fisher matrix, only in the identity basis in the metric of the loss
  at::Tensor factor;  ///< L of the metric, on the host
  std::optional<CostSums> costs;
  Eigenbasis eigenbasis;  ///< vectors are on the host, if defined
};

/// First pass: the Gram matrix; in the identity basis also the other sums; in the metric of the
/// loss also the Gram matrix of the gradients.
struct FirstPass {
  /// `packed`: as in MomentOptions. The sums must be those of one rank.
  explicit FirstPass(const JunctionSetup& setup, bool packed = false);
  /// Restores the pass from tensors().
  FirstPass(const JunctionSetup& setup, const NamedTensors& tensors);

  /// x: [..., d] float32.
  void add(const at::Tensor& x);
  /// Adds the gradient of the loss with respect to an x, of the shape of x. Only in the metric of
  /// the loss.
  void add_gradient(const at::Tensor& g);
  /// Sums for ranks to add up. Only the upper triangle of a matrix is valid (Moments).
  std::vector<at::Tensor> sums() const;
  NamedTensors tensors() const;
  /// Names of the tensors that every first pass of a map with these sums has.
  static std::vector<std::string> names(const SumsOfPasses& sums);
  /// Finishes the pass. `tokens`: number of tokens summed on all ranks together.
  DecomposedJunction finish(int64_t tokens) &&;

  /// Mean square of an activation. Throws std::runtime_error if all activations are zero.
  double mean_square(int64_t tokens) const;
  /// Adds the sums of another junction over `tokens` tokens. With s the mean square of its
  /// activations, the Gram matrix is divided by s and costs by its root; that of the gradients is
  /// multiplied by s. So junctions that share a map have equal weight, whatever the size of their
  /// activations (docs/method.md, "Sharing maps").
  void add_scaled(const FirstPass& other, int64_t tokens);
  /// Completes the diagnostics of a shared map with the results of this junction's own tokens.
  /// M: [d, k].
  MapDiagnostics describe(MapDiagnostics shared, const at::Tensor& M) &&;

  JunctionSetup setup;
  Moments gram;
  std::optional<Moments> fisher;
  std::optional<CostSums> costs;
};

}  // namespace dotresize
