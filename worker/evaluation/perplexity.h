#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "job/model/model_config.h"
#include "worker/checkpoint/reader.h"
#include "worker/comm/communicator.h"
#include "worker/transformer/weights.h"

namespace dotresize {

/// Σ NLL and the number of predicted tokens.
struct NegativeLogLikelihood {
  double nll = 0.0;
  int64_t tokens = 0;

  /// exp(nll / tokens).
  double perplexity() const;
};

/// The head's matrix, a block of rows at a time.
struct Vocabulary {
  int64_t size = 0;
  at::Tensor norm;  ///< γ [d]; undefined if the model is compressed
  /// Rows [first, first + count) [count, k_2L], in the compute dtype on the device.
  std::function<at::Tensor(int64_t first, int64_t count)> rows;
};

/// Of microbatches at the last junction: each window predicts its last seqlen−1 tokens. x: [batch,
/// seqlen, k_2L] float32 each; ids: [batch, seqlen] int64 within the vocabulary. Each block of the
/// vocabulary is read once and meets all microbatches: logits of a whole one never exist at once.
/// Logits in float32, the sums of their exponentials and of the result in float64. One result for
/// each microbatch. Throws std::runtime_error if one is not finite.
std::vector<NegativeLogLikelihood> vocabulary_nll(const ModelConfig& config,
                                                  const Vocabulary& vocabulary,
                                                  std::vector<at::Tensor> x,
                                                  const std::vector<at::Tensor>& ids);

/// Of one microbatch, the whole head in memory.
NegativeLogLikelihood window_nll(const ModelConfig& config, const HeadWeights& head,
                                 const at::Tensor& x, const at::Tensor& ids);

/// Negative log-likelihood, thus perplexity, of a dense or compressed checkpoint over the windows
/// [W, seqlen]. Each rank takes its share of the windows through one sublayer after the other, on
/// its device: no rank holds more of the model than two sublayers. The result does not depend on
/// the number of ranks. Collective; every rank gets the result. `tokens_seen`: of all ranks, tokens
/// through the whole model. The stream of `tokens_at_once` tokens (at least a microbatch for each
/// rank) is in memory at a time; more tokens take as many rounds, each of which reads the model.
NegativeLogLikelihood checkpoint_nll(Communicator& comm, const CheckpointReader& reader,
                                     const ModelConfig& config, const at::Tensor& windows,
                                     at::ScalarType compute_dtype, at::Device device,
                                     int64_t tokens_at_once,
                                     const std::function<void(int64_t tokens)>& tokens_seen);

/// The same in this process alone, on the CPU.
NegativeLogLikelihood checkpoint_nll_alone(const CheckpointReader& reader,
                                           const ModelConfig& config, const at::Tensor& windows,
                                           at::ScalarType compute_dtype,
                                           const std::function<void(int64_t tokens)>& tokens_seen);

}  // namespace dotresize
