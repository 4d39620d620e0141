#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "worker/transformer/weights.h"

namespace dotresize {

/// Σ NLL and the number of predicted tokens.
struct NegativeLogLikelihood {
  double nll = 0.0;
  int64_t tokens = 0;

  /// exp(nll / tokens).
  double perplexity() const;
};

/// Of one microbatch: each window predicts its last seqlen−1 tokens. x: [batch, seqlen, k_2L]
/// float32 at the last junction, ids: [batch, seqlen] int64 within the vocabulary. Works in blocks
/// of tokens, so that logits of the whole microbatch never exist at once. Log-softmax in float32,
/// summed in float64. Throws std::runtime_error if the sum is not finite.
NegativeLogLikelihood window_nll(const ModelConfig& config, const HeadWeights& head,
                                 const at::Tensor& x, const at::Tensor& ids);

}  // namespace dotresize
