#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "job/model/model_config.h"
#include "worker/evaluation/evaluation_sums.h"
#include "worker/transformer/weights.h"

namespace dotresize {

/// The head's matrix, a block of rows at a time.
struct Vocabulary {
  int64_t size = 0;
  /// Rows [first, first + count) [count, k_2L], in the compute dtype on the device.
  std::function<at::Tensor(int64_t first, int64_t count)> rows;
};

/// All rows of a head [vocab, k_2L] that is in memory.
Vocabulary vocabulary_of(const at::Tensor& head);

/// The residual stream of microbatches at the last junction, x [batch, seqlen, k_2L] float32 each,
/// after the last norm: what the head's rows are multiplied with, [batch · seqlen, k_2L] in
/// `dtype`. Of the head only what comes before its matrix is read.
std::vector<at::Tensor> final_states(const ModelConfig& config, const HeadWeights& head,
                                     std::vector<at::Tensor> x, at::ScalarType dtype);

/// The model whose predictions are compared with: its head, and its final states of the same
/// microbatches.
struct ReferencePredictions {
  Vocabulary vocabulary;
  std::vector<at::Tensor> states;
};

/// Of microbatches with these final states; ids: [batch, seqlen] int64 within the vocabulary. Each
/// window predicts its last seqlen−1 tokens. Each block of the vocabulary is read once and meets
/// all microbatches: logits of a whole one never exist at once. Logits in float32, the sums of
/// their exponentials and of the result in float64. One result for each microbatch. `reference`:
/// may be null. Throws NonFiniteError if a result is not finite.
std::vector<EvaluationSums> vocabulary_sums(const Vocabulary& vocabulary,
                                            const std::vector<at::Tensor>& states,
                                            const std::vector<at::Tensor>& ids,
                                            const ReferencePredictions* reference);

/// Of one microbatch, the whole head in memory. x: [batch, seqlen, k_2L] float32.
NegativeLogLikelihood window_nll(const ModelConfig& config, const HeadWeights& head,
                                 const at::Tensor& x, const at::Tensor& ids);

}  // namespace dotresize
