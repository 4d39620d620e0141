#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>

#include "job/model/model_config.h"
#include "job/plan/shard_plan.h"
#include "worker/checkpoint/reader.h"
#include "worker/comm/communicator.h"
#include "worker/evaluation/perplexity.h"

namespace dotresize {

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
