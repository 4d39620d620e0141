#pragma once

#include <optional>

#include "worker/commands/kept_states.h"
#include "worker/commands/run/job_context.h"
#include "worker/evaluation/perplexity.h"

namespace dotresize {

/// What is known of the dense model, for the comparison with the output.
struct DenseEvaluation {
  NegativeLogLikelihood loss;
  std::optional<KeptStates> states;  ///< if predictions are compared
};

/// That of an interrupted run, or of the file if no states are needed, if it was of the same
/// tokens. Nothing if the job has no evaluation. Collective.
std::optional<DenseEvaluation> evaluate_dense(JobContext& run, const JobTokens& tokens,
                                              Journal& journal);

/// What was written, likewise, and how far its predictions are from the dense model's. Collective.
std::optional<EvaluationSums> evaluate_compressed(JobContext& run, const JobTokens& tokens,
                                                  const std::optional<DenseEvaluation>& dense);

}  // namespace dotresize
