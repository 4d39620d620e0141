#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "job/model/model_config.h"
#include "worker/transformer/weights.h"

namespace dotresize {

/// Returns random numbers in [0, 1), [count] float64, for the tokens from `first_token` on. A
/// number depends only on the token's index (Philox, Salmon et al. 2011), not on the distribution
/// of tokens over ranks.
at::Tensor token_uniforms(int64_t first_token, int64_t count);

/// Returns the gradient of Σ_t -log p(label_t) with respect to the final residual stream x [batch,
/// tokens, d] float32, of the same shape. Labels are drawn from p, the model's distribution at each
/// position: the first token at which the cumulative probability exceeds the number in `uniforms`
/// [batch · tokens] float64. The vocabulary is processed in blocks (kGradientVocabularyRows). Has
/// the requirements of gradient_through.
at::Tensor loss_gradient(const ModelConfig& config, const HeadWeights& head, const at::Tensor& x,
                         const at::Tensor& uniforms);

/// Returns the gradient of a loss with respect to the final residual stream x [batch, seqlen, k_2L]
/// float32 of the windows from `first_window` on, of the same shape.
using LastGradient = std::function<at::Tensor(const at::Tensor& x, int64_t first_window)>;

/// Returns the loss_gradient of windows. `numbers`: the number of each window, from which the
/// labels of its tokens are drawn, so that a subset of windows has the same labels as in the full
/// set; empty: 0, 1, ... References outlive the result.
LastGradient label_gradient(const ModelConfig& config, const HeadWeights& head,
                            const std::vector<int64_t>& numbers);

/// Target of the model's predictions for some tokens: the predictions of other weights with the
/// same vocabulary, mixed with the text's next token.
struct TargetPredictions {
  const at::Tensor& head;  ///< [vocab, width]
  at::Tensor states;       ///< [tokens, width] in the head's dtype (final_state)
  at::Tensor labels;       ///< [tokens] int64, the text's next token; -1: unknown
  double label_share;      ///< s, the share of the labels
};

/// Returns the gradient of Σ_t (1 − s) KL(q_t ‖ p_t) − s log p_t(label_t) with respect to x, as
/// loss_gradient does. q: predictions of the target. s is 0 for tokens without a label.
at::Tensor distillation_gradient(const ModelConfig& config, const HeadWeights& head,
                                 const at::Tensor& x, const TargetPredictions& target);

}  // namespace dotresize
