#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace dotresize {

/// Which sums over tokens to accumulate.
struct MomentKinds {
  bool gram = false;     ///< Σ_t x_tᵀ x_t
  bool abs_sum = false;  ///< Σ_t |x_t|
  bool cost = false;     ///< Σ_t |x_ti − x_tj|
};

/// Sums over the tokens at one junction. Microbatches are `add`ed and ranks `merge`d; both give the
/// same sums up to rounding: of float64 for gram and abs_sum, of float32 blocks for cost
/// (kernels/l1_cost.h), and on a GPU for gram too. Matrices are symmetric, and only what is on and
/// above their diagonal is summed: `mirror` completes them. Not thread-safe.
class Moments {
 public:
  /// The sums are on `device`, where what is added must be too.
  Moments(int64_t width, MomentKinds kinds, at::Device device = at::kCPU);

  /// x: [..., width] float32; leading dimensions are tokens. Throws std::runtime_error if x is not
  /// finite.
  void add(const at::Tensor& x);
  /// Throws if `other` has other kinds or another width.
  void merge(const Moments& other);
  /// After the last `add` or `merge`: what lies below the diagonals, from above them.
  void mirror();

  /// From now on the sums of every block of tokens are rounded to a multiple of a quantum so coarse
  /// that float64 adds the multiples up without error: the sums do not depend on the order of
  /// addition, hence not on the number of ranks, bit by bit. `tokens`: as many as all ranks
  /// together will add; `largest_norm`: none of them has a larger l2 norm. The quantum is 2^-50 of
  /// the largest sum that these bounds allow. Call before the first `add`.
  void make_reproducible(int64_t tokens, double largest_norm);

  /// From now on the costs are those of kernels/half_l1_cost.h. On a GPU.
  void take_cost_in_half() { half_cost_ = true; }

  int64_t tokens() const { return tokens_; }

  at::Tensor gram;     ///< [d, d] float64, undefined unless asked for
  at::Tensor abs_sum;  ///< [d] float64, likewise
  at::Tensor cost;     ///< [d, d] float64, likewise

  /// The defined sums, in a fixed order: what ranks add up.
  std::vector<at::Tensor> sums() const;

 private:
  void add_gram(const at::Tensor& tokens);

  int64_t width_;
  int64_t tokens_ = 0;
  bool half_cost_ = false;
  // What is added and taken off to round; 0 rounds nothing.
  double gram_shift_ = 0.0;
  double abs_sum_shift_ = 0.0;
  double cost_shift_ = 0.0;
};

}  // namespace dotresize
