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
/// (kernels/l1_cost.h). Not thread-safe.
class Moments {
 public:
  Moments(int64_t width, MomentKinds kinds);

  /// x: [..., width] float32; leading dimensions are tokens. Throws std::runtime_error if x is not
  /// finite.
  void add(const at::Tensor& x);
  /// Throws if `other` has other kinds or another width.
  void merge(const Moments& other);

  int64_t tokens() const { return tokens_; }
  void set_tokens(int64_t tokens) { tokens_ = tokens; }

  at::Tensor gram;     ///< [d, d] float64, undefined unless asked for
  at::Tensor abs_sum;  ///< [d] float64, likewise
  at::Tensor cost;     ///< [d, d] float64, likewise

  /// The defined sums, in a fixed order: what ranks add up.
  std::vector<at::Tensor> sums() const;

 private:
  int64_t width_;
  int64_t tokens_ = 0;
};

}  // namespace dotresize
