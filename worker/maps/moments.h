#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "job/plan/method.h"

namespace dotresize {

/// Selects the sums over tokens to accumulate.
struct MomentKinds {
  bool gram = false;  ///< Σ_t x_tᵀ x_t
  MapSums sums = {};
};

/// Bounds of what all ranks together will add: number of tokens, and largest l2 norm of a token.
struct SumBounds {
  int64_t tokens = 0;
  double max_norm = 0.0;
};

/// Rounds the summands of a sum to multiples of 2^-50 of a bound (docs/method.md, "Moments").
/// float64 adds such multiples without error, so the sum does not depend, bit by bit, on the order
/// of addition, hence not on the number of ranks.
struct ReproducibleSum {
  /// `bound`: largest magnitude of a partial sum. 0 (sums of zeros): no rounding.
  explicit ReproducibleSum(double bound = 0.0);
  /// summand: float64, changed in place.
  void round(at::Tensor& summand) const;

  /// Number that is added and subtracted to round; its last place is the quantum.
  double shift = 0.0;
};

struct MomentOptions {
  /// Reproducible sums (docs/method.md, "Moments"): the sum of each block of tokens is rounded to a
  /// multiple of a quantum, coarse enough that float64 adds the multiples without error. The sums
  /// do not depend, bit by bit, on the order of addition, hence not on the number of ranks. The
  /// quantum is 2^-50 of the largest sum that the bounds allow.
  std::optional<SumBounds> reproducible = {};
  const char* what = "activations";  ///< name of the summands, for errors
  /// Sums the Gram matrix in float32, as blocks of rows that start at the diagonal: in less than a
  /// third of the memory. Its relative error, 2^-24 times the root of the number of blocks of
  /// tokens, is far below that of 16-bit activations.
  bool packed = false;
};

/// Sums over the tokens at one junction (docs/method.md, "Moments"). Splitting the tokens into
/// calls of `add`, or over ranks that add up their sums(), changes the result only by rounding: of
/// float64 for gram and abs_sum, of float32 blocks for cost (kernels/l1_cost.h) and, on a GPU, for
/// gram too. Matrices are symmetric, and only the part on and above the diagonal is summed;
/// `mirror` completes them. Not thread-safe.
class Moments {
 public:
  /// The sums are on `device`. Inputs must be on it too.
  Moments(int64_t width, MomentKinds kinds, at::Device device = at::kCPU,
          const MomentOptions& options = {});

  /// x: [..., width] float32; leading dimensions are tokens. Throws std::runtime_error if x is not
  /// finite.
  void add(const at::Tensor& x);
  /// Call after the last `add`: copies the upper triangles to the lower ones, and unpacks packed
  /// sums.
  void mirror();
  /// Returns the Gram matrix with a valid upper triangle: `gram`, or the unpacked sums.
  at::Tensor upper_gram() const;
  /// Returns a copy, on the host or on the device of the constructor, that shares no memory with
  /// these sums. Packed sums stay packed, and mirror() unpacks them on that device, wherever they
  /// are.
  Moments copied(bool to_host) const;

  at::Tensor gram;     ///< [d, d] float64; undefined if not requested, or while it is packed
  at::Tensor abs_sum;  ///< [d] float64; undefined if not requested
  at::Tensor cost;     ///< [d, d] float64; undefined if not requested

  /// Returns the defined sums in a fixed order, for ranks to add up.
  std::vector<at::Tensor> sums() const;

 private:
  void add_gram(const at::Tensor& tokens);

  int64_t width_;
  /// Rows of the Gram matrix that are computed at a time, from the diagonal to the right.
  int64_t gram_rows_;
  at::Device device_;
  /// [rows, columns] float32: blocks of rows, each from its diagonal on.
  std::vector<at::Tensor> packed_;
  const char* what_;
  ReproducibleSum gram_rounding_;
  ReproducibleSum abs_sum_rounding_;
  ReproducibleSum cost_rounding_;
};

}  // namespace dotresize
