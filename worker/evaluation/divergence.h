#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace dotresize {

/// Compares two models' predictions of the same tokens, from blocks of the vocabulary's logits:
/// computes KL(P ‖ Q), with P the reference's distribution and Q the model's, and whether both have
/// the same most likely token.
class RunningDivergence {
 public:
  RunningDivergence(int64_t tokens, at::Device device);

  /// Adds logits [tokens, count] float32 of the same rows of both heads, starting at row `first`.
  /// Exponentials and sums are float64.
  void add(const at::Tensor& reference, const at::Tensor& model, int64_t first);

  /// KL of each token in nats, [tokens] float64. Not finite if a logit was not. Equal logits give
  /// 0. Rounding may give values down to -1e-12.
  at::Tensor kl() const;
  /// Agreement of the most likely tokens, [tokens] bool.
  at::Tensor agrees() const;

 private:
  /// State of one model; tensors are [tokens, 1].
  struct Side {
    at::Tensor largest;    ///< largest logit so far, float64
    at::Tensor likeliest;  ///< token of the largest logit, int64
    at::Tensor sum;        ///< Σ exp(logit − largest), float64

    /// Updates `largest` and `likeliest` from a block, and rescales `sum`. Returns the scale
    /// factor.
    at::Tensor advance(const at::Tensor& logits, int64_t first);
  };

  Side p_;
  Side q_;
  at::Tensor weighted_;  ///< Σ exp(p − p_.largest)·(p − q), [tokens, 1] float64
};

}  // namespace dotresize
