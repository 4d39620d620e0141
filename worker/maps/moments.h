#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "worker/maps/reproducible_sum.h"

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
  /// The Gram matrix is summed in float32, blocks of rows from the diagonal on: in less than a
  /// third of the memory. Its relative error, 2^-24 times the root of the number of blocks of
  /// tokens, is far below that of activations in 16 bits.
  bool packed = false;
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
  /// After the last `add`: what lies below the diagonals, from above them. What was packed becomes
  /// one matrix.
  void mirror();
  /// The Gram matrix as it is summed, above the diagonal: `gram`, or one that is made of what is
  /// packed.
  at::Tensor upper_gram() const;
  /// Copies that share no memory with these. What is packed stays so, and mirror() makes a matrix
  /// on the device of it, wherever it is.
  Moments on_host() const { return copy_on(at::kCPU); }
  Moments on_device() const { return copy_on(device_); }

  at::Tensor gram;     ///< [d, d] float64, undefined unless asked for, or as long as it is packed
  at::Tensor abs_sum;  ///< [d] float64, likewise
  at::Tensor cost;     ///< [d, d] float64, likewise

  /// The defined sums, in a fixed order: what ranks add up.
  std::vector<at::Tensor> sums() const;

 private:
  void add_gram(const at::Tensor& tokens);
  void add_packed(const at::Tensor& tokens);
  Moments copy_on(at::Device device) const;

  int64_t width_;
  at::Device device_;
  std::vector<at::Tensor> packed_;  ///< [rows, columns] float32: rows from their diagonal on
  bool half_cost_;
  const char* what_;
  ReproducibleSum gram_rounding_;
  ReproducibleSum abs_sum_rounding_;
  ReproducibleSum cost_rounding_;
};

}  // namespace dotresize
