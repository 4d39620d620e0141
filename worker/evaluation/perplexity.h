#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>

#include "job/model/model_config.h"
#include "job/plan/shard_plan.h"
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

/// Of one microbatch: each window predicts its last seqlen−1 tokens. x: [batch, seqlen, k_2L]
/// float32 at the last junction, ids: [batch, seqlen] int64 within the vocabulary. Works in blocks
/// of tokens, so that logits of the whole microbatch never exist at once. Log-softmax in float32,
/// summed in float64. Throws std::runtime_error if the sum is not finite.
NegativeLogLikelihood window_nll(const ModelConfig& config, const HeadWeights& head,
                                 const at::Tensor& x, const at::Tensor& ids);

/// Negative log-likelihood, thus perplexity, of a dense or compressed checkpoint over the windows
/// [W, seqlen], the ranks being pipeline stages, each on its device. Collective; every rank gets
/// the result.
NegativeLogLikelihood checkpoint_nll(Communicator& comm, const CheckpointReader& reader,
                                     const ModelConfig& config, const ShardPlan& plan,
                                     const at::Tensor& windows, at::ScalarType compute_dtype,
                                     at::Device device,
                                     const std::function<void(int64_t tokens)>& tokens_seen);

/// The same in this process alone, on the CPU.
NegativeLogLikelihood checkpoint_nll_alone(const CheckpointReader& reader,
                                           const ModelConfig& config, const at::Tensor& windows,
                                           at::ScalarType compute_dtype,
                                           const std::function<void(int64_t tokens)>& tokens_seen);

}  // namespace dotresize
