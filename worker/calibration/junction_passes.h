#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/phase_clock.h"
#include "worker/maps/junction_map.h"
#include "worker/maps/junction_solver.h"
#include "worker/maps/moments.h"
#include "worker/maps/spectrum.h"

namespace dotresize {

// One junction from its activations to its map (docs/method.md, "Moments" and "Maps"):
//
//   FirstPass ── finish ──► DecomposedJunction ─┬─ solve ──► JunctionSolution
//                                 └─ rotation ──► SecondPass
//
// The second pass is that of needs_second_pass(options). Everything is computed on the junction's
// device. Errors name the junction.

/// What a phase leaves behind, by name: what the journal keeps of it.
using NamedTensors = std::map<std::string, at::Tensor>;

/// What all phases of one junction know. References outlive them.
struct JunctionSetup {
  int64_t junction = 0;
  int64_t hidden_size = 0;  ///< d
  const MapOptions& map;
  PhaseClock& clock;
  at::Device device = at::kCPU;
  std::optional<SumBounds> reproducible = {};  ///< as in MomentOptions

  /// Whether the first pass takes the sums in the map's basis, and whether costs are among them.
  bool sums_in_first_pass() const;
  bool costs_in_first_pass() const;
};

/// In which precision the costs of a junction are summed. The default is float32.
struct CostPrecision {
  bool half = false;
  std::optional<double> half_error = {};  ///< of costs in half precision on a sample, if measured

  /// Half precision if this error of it is accepted (kernels/l1_cost.h).
  static CostPrecision from_half_error(double error);
  /// Of CostSums::tensors().
  static CostPrecision from(const NamedTensors& tensors);
};

/// The error of costs in half precision on the first tokens of x [..., d] float32, in the basis of
/// `rotation` (undefined: the identity). On a GPU.
double half_cost_error(const JunctionSetup& setup, const at::Tensor& x, const at::Tensor& rotation);

/// Costs and l1 norms in the basis of the map: a part of either pass.
class CostSums {
 public:
  CostSums(const JunctionSetup& setup, const CostPrecision& precision);
  /// From tensors().
  CostSums(const JunctionSetup& setup, const NamedTensors& tensors);

  /// z: [..., d] float32 in the map's basis.
  void add(const at::Tensor& z);
  /// Adds `scale` times the sums of another junction.
  void add_scaled(const CostSums& other, double scale);
  std::vector<at::Tensor> sums() const { return moments_.sums(); }
  const CostPrecision& precision() const { return precision_; }
  NamedTensors tensors() const;
  /// Completes the sums and takes them out.
  Moments take() &&;

 private:
  JunctionSetup setup_;
  CostPrecision precision_;
  Moments moments_;
};

/// Costs in the rotated basis.
class SecondPass {
 public:
  /// rotation: U [d, d] float32.
  SecondPass(const JunctionSetup& setup, at::Tensor rotation, const CostPrecision& precision);
  /// One that is over.
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

/// A junction whose first pass is over: in the PCA basis its eigenbasis, which waits on the host,
/// and in the identity basis its sums.
class DecomposedJunction {
 public:
  /// From tensors().
  DecomposedJunction(const JunctionSetup& setup, int64_t tokens, const NamedTensors& tensors);

  /// U [d, d] float32 on the junction's device: the basis of a second pass.
  /// In the metric of the loss it is L·B, B being the eigenbasis of LᵀGL (maps/metric.h).
  at::Tensor rotation() const;
  NamedTensors tensors() const;
  /// `second` is the second pass over all tokens if the map needs one.
  SolvedJunction solve(int64_t width, std::optional<SecondPass> second) &&;

 private:
  friend class FirstPass;
  DecomposedJunction(const JunctionSetup& setup, int64_t tokens, at::Tensor gram, at::Tensor fisher,
                     std::optional<CostSums> costs);
  void decompose();

  JunctionSetup setup_;
  int64_t tokens_;
  at::Tensor gram_;    ///< in the identity basis, or on the host in the metric of the loss
  at::Tensor fisher_;  ///< in the identity basis, in the metric of the loss
  at::Tensor factor_;  ///< of the metric, on the host
  std::optional<CostSums> costs_;
  Eigenbasis eigenbasis_;  ///< vectors on the host, if there are any
};

/// The Gram matrix and, in the identity basis, the other sums; in the metric of the loss the Gram
/// matrix of the gradients too.
class FirstPass {
 public:
  /// `packed`: as in MomentOptions, of sums that no other rank adds to.
  FirstPass(const JunctionSetup& setup, const CostPrecision& precision, bool packed = false);
  /// From tensors().
  FirstPass(const JunctionSetup& setup, const NamedTensors& tensors);

  /// x: [..., d] float32.
  void add(const at::Tensor& x);
  /// Of the loss with respect to an x, of the same shape. In the metric of the loss alone.
  void add_gradient(const at::Tensor& g);
  /// What ranks add up. Of matrices the upper triangle counts (Moments).
  std::vector<at::Tensor> sums() const;
  NamedTensors tensors() const;
  /// Of `tokens` tokens in all, those of other ranks included.
  DecomposedJunction finish(int64_t tokens) &&;

  /// The mean square of an activation. Throws std::runtime_error if all of them are zero.
  double mean_square(int64_t tokens) const;
  /// Adds the sums of another junction over `tokens` tokens, divided by its mean square (Gram) or
  /// the root of that (costs), or times it (gradients): junctions with one map count alike, however
  /// large their activations are (docs/method.md, "Sharing maps").
  void add_scaled(const FirstPass& other, int64_t tokens);
  /// Diagnostics of a map that others share, with what this junction's own tokens say about it.
  /// `precision`: of this junction's costs. M: [d, k].
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
