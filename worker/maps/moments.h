#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <vector>

namespace dotresize {

/// Which sums over tokens to accumulate.
struct MomentKinds {
  bool gram = false;     ///< Σ_t x_tᵀ x_t
  bool abs_sum = false;  ///< Σ_t |x_t|
  bool cost = false;     ///< Σ_t |x_ti − x_tj|
};

/// What all ranks together will add: as many tokens, none of a larger l2 norm.
struct SumBounds {
  int64_t tokens = 0;
  double max_norm = 0.0;
};

struct MomentOptions {
  /// The costs are those of kernels/l1_cost.h. On a GPU.
  bool half_cost = false;
  /// Reproducible sums (docs/method.md, "Moments"): the sum of every block of tokens is rounded to
  /// a multiple of a quantum so coarse that float64 adds the multiples up without error. The sums
  /// do not depend on the order of addition, hence not on the number of ranks, bit by bit. The
  /// quantum is 2^-50 of the largest sum that the bounds allow.
  std::optional<SumBounds> reproducible = {};
  const char* what = "activations";  ///< that are summed, for errors
};

/// Sums over the tokens at one junction (docs/method.md, "Moments"). However the tokens are split
/// into calls of `add`, and over ranks that add up their sums(), the result is the same up to
/// rounding: of float64 for gram and abs_sum, of float32 blocks for cost (kernels/l1_cost.h), and
/// on a GPU for gram too. Matrices are symmetric, and only what is on and above their diagonal is
/// summed: `mirror` completes them. Not thread-safe.
class Moments {
 public:
  /// The sums are on `device`, as what is added must be.
  Moments(int64_t width, MomentKinds kinds, at::Device device = at::kCPU,
          const MomentOptions& options = {});

  /// x: [..., width] float32; leading dimensions are tokens. Throws std::runtime_error if x is not
  /// finite.
  void add(const at::Tensor& x);
  /// After the last `add`: what lies below the diagonals, from above them.
  void mirror();

  at::Tensor gram;     ///< [d, d] float64, undefined unless asked for
  at::Tensor abs_sum;  ///< [d] float64, likewise
  at::Tensor cost;     ///< [d, d] float64, likewise

  /// The defined sums, in a fixed order: what ranks add up.
  std::vector<at::Tensor> sums() const;

 private:
  void add_gram(const at::Tensor& tokens);

  int64_t width_;
  bool half_cost_;
  const char* what_;
  // What is added and subtracted to round; 0 rounds nothing.
  double gram_shift_ = 0.0;
  double abs_sum_shift_ = 0.0;
  double cost_shift_ = 0.0;
};

}  // namespace dotresize
