#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "job/model/model_config.h"
#include "worker/transformer/weights.h"

namespace dotresize {

/// Numbers in [0, 1) [count] float64, one for each of the tokens from `first_token` on: each
/// depends on the token's own index alone (Philox, Salmon et al. 2011), so not on how tokens are
/// dealt out.
at::Tensor token_uniforms(int64_t first_token, int64_t count);

/// The gradient of Σ_t -log p(label_t) with respect to the final residual stream x
/// [batch, tokens, d] float32, of the same shape. A label is drawn from p, the model's distribution
/// at its position: the first token at which the sum of the probabilities exceeds the uniform
/// number, of `uniforms` [batch · tokens] float64. The vocabulary is taken block by block
/// (kGradientVocabularyRows). Needs what gradient_through does.
at::Tensor loss_gradient(const ModelConfig& config, const HeadWeights& head, const at::Tensor& x,
                         const at::Tensor& uniforms);

/// The gradient of a loss with respect to the final residual stream x [batch, seqlen, k_2L] float32
/// of the windows from `first_window` on, of the same shape.
using LastGradient = std::function<at::Tensor(const at::Tensor& x, int64_t first_window)>;

/// loss_gradient of windows. `numbers`: of each window, which the labels of its tokens are drawn
/// by, so that a part of some windows has the labels that it has among all; empty: 0, 1, ...
/// References outlive the result.
LastGradient label_gradient(const ModelConfig& config, const HeadWeights& head,
                            const std::vector<int64_t>& numbers);

/// What the model shall predict behind each of some tokens: mostly what other weights of the same
/// vocabulary do, and to a share the token that the text has there.
struct TargetPredictions {
  const at::Tensor& head;  ///< [vocab, width]
  at::Tensor states;       ///< [tokens, width] in the head's dtype (final_state)
  at::Tensor labels;       ///< [tokens] int64, the text's next token; -1: none is known
  double label_share;      ///< s
};

/// The gradient of Σ_t (1 − s) KL(q_t ‖ p_t) − s log p_t(label_t) with respect to x, as in
/// loss_gradient; q: of the target. Without a label s is 0.
at::Tensor distillation_gradient(const ModelConfig& config, const HeadWeights& head,
                                 const at::Tensor& x, const TargetPredictions& target);

}  // namespace dotresize
