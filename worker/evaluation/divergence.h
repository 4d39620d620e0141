#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace dotresize {

/// Two models' predictions of the same tokens, whose logits come a block of the vocabulary at a
/// time: KL(P ‖ Q) with P the reference's distribution and Q the model's, and whether both have the
/// same most likely token.
class RunningDivergence {
 public:
  RunningDivergence(int64_t tokens, at::Device device);

  /// Of the same rows of both heads, from `first` on: logits [tokens, count] float32. Exponentials
  /// and sums are float64.
  void add(const at::Tensor& reference, const at::Tensor& model, int64_t first);

  /// Of each token, in nats, [tokens] float64. Not finite if a logit was not. Equal logits give 0;
  /// rounding leaves less than 1e-12 below 0.
  at::Tensor kl() const;
  /// Of each token, [tokens] bool.
  at::Tensor agrees() const;

 private:
  /// Of one model, [tokens, 1] each.
  struct Side {
    at::Tensor largest;    ///< logit so far, float64
    at::Tensor likeliest;  ///< its token, int64
    at::Tensor sum;        ///< Σ exp(logit − largest), float64

    /// Takes over what a block has, and rescales `sum`; returns its factor.
    at::Tensor advance(const at::Tensor& logits, int64_t first);
    at::Tensor log_sum() const;
  };
  static Side empty_side(int64_t tokens, at::Device device);

  Side p_;
  Side q_;
  at::Tensor weighted_;  ///< Σ exp(p − p_.largest)·(p − q), [tokens, 1] float64
};

}  // namespace dotresize
