#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "job/model/model_config.h"
#include "worker/evaluation/evaluation_sums.h"
#include "worker/transformer/weights.h"

namespace dotresize {

/// The head's matrix, read in blocks of rows.
struct Vocabulary {
  int64_t size = 0;
  /// Returns rows [first, first + count) [count, k_2L], in the compute dtype on the device.
  std::function<at::Tensor(int64_t first, int64_t count)> rows;
};

/// Makes a vocabulary of a head [vocab, k_2L] that is in memory.
Vocabulary vocabulary_of(const at::Tensor& head);

/// Returns the inputs of the head's matrix, [batch · seqlen, k_2L] in `dtype`, from the residual
/// stream of microbatches at the last junction, x [batch, seqlen, k_2L] float32 each: normed, and
/// projected if the head has a projection. The head's matrix is not read.
std::vector<at::Tensor> final_states(const ModelConfig& config, const HeadWeights& head,
                                     std::vector<at::Tensor> x, at::ScalarType dtype);

/// Predictions of the reference: its head, and its final states of the same microbatches.
struct ReferencePredictions {
  Vocabulary vocabulary;
  std::vector<at::Tensor> states;
};

/// Returns the sums of each microbatch from its final states. ids: [batch, seqlen] int64 within the
/// vocabulary. Each window predicts its last seqlen−1 tokens. Each block of the vocabulary is read
/// once for all microbatches, so the logits of a whole microbatch never exist at once. Logits are
/// float32; the sums of exponentials and of the result are float64. `reference`: may be null.
/// Throws NonFiniteError if a result is not finite.
std::vector<EvaluationSums> vocabulary_sums(const Vocabulary& vocabulary,
                                            const std::vector<at::Tensor>& states,
                                            const std::vector<at::Tensor>& ids,
                                            const ReferencePredictions* reference);

/// Returns the sums of one microbatch, with the whole head in memory. x: [batch, seqlen, k_2L]
/// float32.
NegativeLogLikelihood window_nll(const ModelConfig& config, const HeadWeights& head,
                                 const at::Tensor& x, const at::Tensor& ids);

}  // namespace dotresize
