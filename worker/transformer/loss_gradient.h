#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "job/model/model_config.h"
#include "job/plan/method.h"
#include "worker/transformer/weights.h"

namespace dotresize {

/// Where the labels of the loss come from.
struct LabelSource {
  Labels kind = Labels::kModel;
  uint32_t seed = 0;  ///< kModel only
};

/// Numbers in [0, 1) [count] float64, one for each of the tokens from `first_token` on: each
/// depends on the seed and the token's own index alone (Philox, Salmon et al. 2011), so not on how
/// tokens are dealt out.
at::Tensor token_uniforms(uint32_t seed, int64_t first_token, int64_t count);

/// The labels of the windows `ids` [samples, seqlen], of which the first is window `first_sample`.
/// Either each position has the number from which its label is drawn, or it has the label: the next
/// token, and the last position of a window none.
struct WindowLabels {
  at::Tensor uniforms;  ///< [samples · seqlen] float64, or undefined
  at::Tensor labels;    ///< [samples · seqlen] int64, -1 for none; undefined if they are drawn
};

WindowLabels labels_of(const LabelSource& source, const at::Tensor& ids, int64_t first_sample);

/// The gradient of Σ_t -log p(label_t) with respect to the final residual stream x
/// [batch, tokens, d] float32, of the same shape. A label is drawn from p, the model's distribution
/// at its position: the first token at which the sum of the probabilities exceeds the uniform
/// number. The vocabulary is taken block by block (kGradientVocabularyRows). Needs what
/// gradient_through does.
at::Tensor loss_gradient(const ModelConfig& config, const HeadWeights& head, const at::Tensor& x,
                         const WindowLabels& labels);

}  // namespace dotresize
