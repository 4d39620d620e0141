#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "job/model/model_config.h"
#include "job/plan/block_sizes.h"
#include "worker/checkpoint/reader.h"
#include "worker/comm/communicator.h"
#include "worker/evaluation/vocabulary_sums.h"

namespace dotresize {

/// Reference model of a comparison. It has been evaluated on the same windows with
/// CheckpointEvaluation::keep. References outlive it.
struct EvaluatedReference {
  const CheckpointReader& reader;
  const ModelConfig& config;
  /// Returns the final states of a microbatch, as passed to `keep`, on the CPU.
  std::function<at::Tensor(int64_t microbatch)> states;
};

/// Options for the evaluation of a dense or compressed checkpoint. References outlive it.
struct CheckpointEvaluation {
  const CheckpointReader& reader;
  const ModelConfig& config;
  at::Tensor windows;  ///< ids [W, seqlen] int64
  at::ScalarType compute_dtype = at::kFloat;
  at::Device device = at::kCPU;
  /// Number of tokens whose stream is in memory at a time (at least a microbatch per rank). More
  /// tokens take several rounds, each of which reads the model.
  int64_t tokens_at_once = 0;
  /// Called with the number of tokens, on all ranks, that have gone through the whole model.
  std::function<void(int64_t tokens)> tokens_seen;
  /// Receives the final states (final_state, [batch · seqlen, k_2L]) of this rank's microbatches,
  /// starting at number `first`. Numbers count the microbatches of all windows, and do not depend
  /// on the number of ranks. May be null.
  std::function<void(int64_t first, const std::vector<at::Tensor>& states)> keep = {};
  /// Reference with the same vocabulary, or null. Its final states need as much memory as this
  /// model's.
  const EvaluatedReference* reference = nullptr;
};

/// Returns the negative log-likelihood over the windows, and the divergence from the reference if
/// there is one. Each rank takes its share of the windows through one sublayer after the other, on
/// its device, and holds at most two sublayers of the model. The result does not depend on the
/// number of ranks. Collective; every rank gets the result.
EvaluationSums evaluate_checkpoint(Communicator& comm, const CheckpointEvaluation& evaluation);

/// Value of tokens_at_once for a single process: the number of tokens of a default calibration.
inline constexpr int64_t kTokensAtOnceAlone = kDefaultSamples * kDefaultSeqlen;

/// Returns the loss of a checkpoint, computed in this process alone, on the CPU.
NegativeLogLikelihood checkpoint_nll_alone(const CheckpointReader& reader,
                                           const ModelConfig& config, const at::Tensor& windows,
                                           at::ScalarType compute_dtype);

}  // namespace dotresize
