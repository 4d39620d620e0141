#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "job/model/model_config.h"
#include "worker/checkpoint/reader.h"
#include "worker/comm/communicator.h"
#include "worker/evaluation/evaluation_sums.h"
#include "worker/evaluation/vocabulary_sums.h"

namespace dotresize {

/// A model with which others are compared: it has been through the same windows with
/// CheckpointEvaluation::keep. References outlive it.
struct EvaluatedReference {
  const CheckpointReader& reader;
  const ModelConfig& config;
  /// The final states of a microbatch, as `keep` was given them, on the CPU.
  std::function<at::Tensor(int64_t microbatch)> states;
};

/// How a dense or compressed checkpoint is evaluated. References outlive it.
struct CheckpointEvaluation {
  const CheckpointReader& reader;
  const ModelConfig& config;
  at::Tensor windows;  ///< ids [W, seqlen] int64
  at::ScalarType compute_dtype = at::kFloat;
  at::Device device = at::kCPU;
  /// The stream of so many tokens (at least a microbatch for each rank) is in memory at a time;
  /// more tokens take as many rounds, each of which reads the model.
  int64_t tokens_at_once = 0;
  /// Of all ranks, tokens through the whole model.
  std::function<void(int64_t tokens)> tokens_seen;
  /// If there is one: gets the final states (final_states) of this rank's microbatches, numbered
  /// over all windows whatever the number of ranks, from `first` on.
  std::function<void(int64_t first, const std::vector<at::Tensor>& states)> keep = {};
  /// With the same vocabulary, or null. Its final states take as much memory as this model's.
  const EvaluatedReference* reference = nullptr;
};

/// Negative log-likelihood, thus perplexity, and the divergence from the reference if there is one,
/// over the windows. Each rank takes its share of them through one sublayer after the other, on its
/// device: no rank holds more of the model than two sublayers. The result does not depend on the
/// number of ranks. Collective; every rank gets the result.
EvaluationSums evaluate_checkpoint(Communicator& comm, const CheckpointEvaluation& evaluation);

/// As many tokens at once as a usual calibration has: for a process that is alone.
int64_t tokens_at_once_alone();

/// The loss of a checkpoint, in this process alone, on the CPU.
NegativeLogLikelihood checkpoint_nll_alone(const CheckpointReader& reader,
                                           const ModelConfig& config, const at::Tensor& windows,
                                           at::ScalarType compute_dtype);

}  // namespace dotresize
