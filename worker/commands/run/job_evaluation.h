#pragma once

#include <optional>

#include "worker/commands/kept_states.h"
#include "worker/commands/run/job_context.h"
#include "worker/evaluation/perplexity.h"

namespace dotresize {

/// Results of the dense model, for comparison with the output.
struct DenseEvaluation {
  NegativeLogLikelihood loss;
  std::optional<KeptStates> states;  ///< only if predictions are compared
};

/// Evaluates the dense model. Reuses the result of an interrupted run, or of the dense-loss file if
/// no states are needed, for the same tokens. Returns nothing if the job has no evaluation.
/// Collective.
std::optional<DenseEvaluation> evaluate_dense(JobContext& run, const JobTokens& tokens,
                                              Journal& journal);

/// Evaluates the written output, and the divergence of its predictions from the dense model's.
/// Returns nothing if the job has no evaluation. Collective.
std::optional<EvaluationSums> evaluate_compressed(JobContext& run, const JobTokens& tokens,
                                                  const std::optional<DenseEvaluation>& dense);

}  // namespace dotresize
