#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "base/phase_clock.h"
#include "worker/kernels/half_l1_cost.h"
#include "worker/maps/basis.h"
#include "worker/maps/junction_solver.h"
#include "worker/maps/moments.h"

namespace dotresize {

/// One junction from its activations to its map. First pass: the Gram matrix and, in the identity
/// basis, the costs. Then decompose(), and for pca with transport a second pass: the costs in the
/// rotated basis. Errors name the junction.
class JunctionEstimator {
 public:
  /// Everything is computed on `device`, and stays there.
  JunctionEstimator(int64_t junction, int64_t width, const MapOptions& options, PhaseClock& clock,
                    at::Device device = at::kCPU);

  /// The method costs a second pass over the tokens, in the basis of the first.
  bool needs_second_pass() const { return options_.pca && options_.transport; }

  /// Makes the sums independent of how the tokens are dealt out to ranks: see Moments. Before the
  /// first pass.
  void make_reproducible(int64_t tokens, double largest_norm);

  /// Takes the costs in half precision (kernels/half_l1_cost.h) where a sample says that it is
  /// accurate enough: this one's first tokens, unless settle_cost_dtype comes first. Before the
  /// first pass. On a GPU.
  void try_half_costs() { tries_half_costs_ = cost_.has_value(); }
  bool must_settle_cost_dtype() const { return tries_half_costs_ && !half_cost_error_; }
  /// Their error on the first tokens of x [..., d] float32, in the original basis. Before the first
  /// costs, after decompose() for pca.
  double half_cost_error(const at::Tensor& x) const;
  /// Decides by such an error: where ranks share the tokens, the same one on all of them.
  void settle_cost_dtype(double error);

  /// x: [..., d] float32.
  void add(const at::Tensor& x);
  /// The first pass's sums over this rank's tokens: what ranks add up. Of matrices the upper
  /// triangle counts (Moments).
  std::vector<at::Tensor> first_sums() const;
  /// The eigenbasis of the Gram matrix of `tokens` tokens (all ranks').
  void decompose(int64_t tokens);

  /// U [d, d] float32, defined by decompose() or set by set_rotation().
  const at::Tensor& rotation() const { return rotation_; }
  void set_rotation(at::Tensor rotation) { rotation_ = std::move(rotation); }
  /// Second pass, x in the original basis.
  void add_rotated(const at::Tensor& x);
  std::vector<at::Tensor> second_sums() const;

  /// Adds the sums of another junction over `tokens` tokens, divided by its mean square (Gram) or
  /// the root of that (costs, l1 norms): junctions with one map count alike, however large their
  /// activations are (method.md, "Sharing maps"). After each pass.
  void add_first_sums(const JunctionEstimator& other, int64_t tokens);
  void add_second_sums(const JunctionEstimator& other, int64_t tokens);

  /// The eigenvalues of the Gram matrix, descending [d] float64. After decompose().
  const at::Tensor& spectrum() const { return basis_->values; }
  /// Another width of the map than the options have. Before solve().
  void set_width(int64_t width) { options_.width = width; }
  /// After decompose() and the passes that the method needs, over `tokens` tokens.
  JunctionSolution solve(int64_t tokens);
  /// Effective rank and retained energy of this junction under a map that others share.
  void describe(JunctionSolution& shared);

 private:
  at::Tensor rotated(const at::Tensor& x) const;
  // z: [..., d] float32 in the map's basis.
  void add_cost(const at::Tensor& z);
  double sampled_half_cost_error(const at::Tensor& z) const;
  bool takes_half_costs() const {
    return half_cost_error_ && *half_cost_error_ <= kMostHalfL1CostError;
  }
  void note_costs(MapDiagnostics& diagnostics) const;
  double mean_square(int64_t tokens) const;

  int64_t junction_;
  MapOptions options_;
  PhaseClock& clock_;
  Moments gram_;
  std::optional<Moments> cost_;
  bool tries_half_costs_ = false;
  std::optional<double> half_cost_error_;
  std::optional<Eigenbasis> basis_;
  at::Tensor rotation_;
};

}  // namespace dotresize
