#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
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
//                                 └─ rotation ──► SecondPass
//
// The second pass is needed if needs_second_pass(options). Everything is computed on the junction's
// device. Errors name the junction.

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

  /// Return true if the first pass takes the sums in the map's basis, and if these include costs.
  bool sums_in_first_pass() const;
  bool costs_in_first_pass() const;
};

/// Precision in which the costs of a junction are summed. The default is float32.
struct CostPrecision {
  bool half = false;
  /// Error of half-precision costs on a sample, if measured.
  std::optional<double> half_error = {};

  /// Returns half precision if this error of it is accepted (kernels/l1_cost.h).
  static CostPrecision from_half_error(double error);
  /// Reads the precision from CostSums::tensors().
  static CostPrecision from(const NamedTensors& tensors);
};

/// Error of costs in half precision on the first tokens of x [..., d] float32, in the basis
/// `rotation` (undefined: the identity). GPU only.
double half_cost_error(const JunctionSetup& setup, const at::Tensor& x, const at::Tensor& rotation);

/// Sums of costs and l1 norms in the basis of the map. Part of the first or the second pass.
class CostSums {
 public:
  CostSums(const JunctionSetup& setup, const CostPrecision& precision);
  /// Restores the sums from tensors().
  CostSums(const JunctionSetup& setup, const NamedTensors& tensors);

  /// z: [..., d] float32 in the map's basis.
  void add(const at::Tensor& z);
  /// Adds the sums of another junction, multiplied by `scale`.
  void add_scaled(const CostSums& other, double scale);
  std::vector<at::Tensor> sums() const { return moments_.sums(); }
  const CostPrecision& precision() const { return precision_; }
  NamedTensors tensors() const;
  /// Completes the sums and moves them out.
  Moments take() &&;

 private:
  JunctionSetup setup_;
  CostPrecision precision_;
  Moments moments_;
};

/// Second pass: costs in the rotated basis.
class SecondPass {
 public:
  /// rotation: U [d, d] float32.
  SecondPass(const JunctionSetup& setup, at::Tensor rotation, const CostPrecision& precision);
  /// Restores a finished pass.
  explicit SecondPass(const JunctionSetup& setup, CostSums costs)
      : setup_(setup), costs_(std::move(costs)) {}

  /// x: [..., d] float32 in the original basis.
  void add(const at::Tensor& x);
  CostSums& costs() { return costs_; }
  const CostSums& costs() const { return costs_; }

 private:
  JunctionSetup setup_;
  at::Tensor rotation_;
  CostSums costs_;
};

/// A junction after its first pass. In the PCA basis it holds the eigenbasis, kept on the host; in
/// the identity basis it holds the sums.
class DecomposedJunction {
 public:
  /// Restores the junction from tensors().
  DecomposedJunction(const JunctionSetup& setup, int64_t tokens, const NamedTensors& tensors);

  /// Basis of a second pass: U [d, d] float32 on the junction's device. In the metric of the loss
  /// it is L·B, where B is the eigenbasis of LᵀGL (maps/metric.h).
  at::Tensor rotation() const;
  NamedTensors tensors() const;
  /// Solves the map. `second`: the finished second pass over all tokens, if the map needs one.
  SolvedJunction solve(int64_t width, std::optional<SecondPass> second) &&;

 private:
  friend class FirstPass;
  DecomposedJunction(const JunctionSetup& setup, int64_t tokens, at::Tensor gram, at::Tensor fisher,
                     std::optional<CostSums> costs);
  void decompose();

  JunctionSetup setup_;
  int64_t tokens_;
  /// Gram matrix: in the identity basis, or on the host in the metric of the loss.
  at::Tensor gram_;
  at::Tensor fisher_;  ///< Fisher matrix, only in the identity basis in the metric of the loss
  at::Tensor factor_;  ///< L of the metric, on the host
  std::optional<CostSums> costs_;
  Eigenbasis eigenbasis_;  ///< vectors are on the host, if defined
};

/// First pass: the Gram matrix; in the identity basis also the other sums; in the metric of the
/// loss also the Gram matrix of the gradients.
class FirstPass {
 public:
  /// `packed`: as in MomentOptions. The sums must be those of one rank.
  FirstPass(const JunctionSetup& setup, const CostPrecision& precision, bool packed = false);
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
  /// `precision`: precision of this junction's costs. M: [d, k].
  MapDiagnostics describe(MapDiagnostics shared, const at::Tensor& M,
                          const CostPrecision& precision) &&;
  CostPrecision precision() const { return costs_ ? costs_->precision() : CostPrecision{}; }

 private:
  JunctionSetup setup_;
  Moments gram_;
  std::optional<Moments> fisher_;
  std::optional<CostSums> costs_;
};

}  // namespace dotresize
