#include "worker/commands/run/job_evaluation.h"

#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "job/model/read_model_config.h"
#include "job/plan/estimate/memory_estimate.h"
#include "worker/commands/run/dense_loss.h"
#include "worker/commands/run/output/fingerprints.h"
#include "worker/commands/run/resume.h"
#include "worker/transformer/stage/microbatches.h"

namespace dotresize {
namespace fs = std::filesystem;
namespace {

CheckpointEvaluation evaluation_of(const JobContext& run, const TokenWindows& tokens,
                                   const CheckpointReader& reader, const ModelConfig& config) {
  return {.reader = reader,
          .config = config,
          .windows = tokens.windows,
          .compute_dtype = run.compute_dtype(),
          .device = run.environment.device.device,
          .tokens_at_once = evaluation_tokens_at_once(run.job, run.config),
          .tokens_seen = run.count_tokens()};
}

EvaluationSums evaluate(JobContext& run, const CheckpointEvaluation& evaluation,
                        const std::string& phase) {
  const PhaseClock::Scope scope(run.clock, phase);
  run.progress().enter(phase);
  return evaluate_checkpoint(run.comm, evaluation);
}

}  // namespace

std::optional<DenseEvaluation> evaluate_dense(JobContext& run, const JobTokens& tokens,
                                              Journal& journal) {
  if (!tokens.evaluation) return std::nullopt;
  const std::string entry = dense_loss_entry(*tokens.evaluation);
  DenseEvaluation dense;
  if (run.job.evaluation->kl) dense.states.emplace(journal, dense_states_entry(*tokens.evaluation));
  const int64_t microbatches = count_microbatches(tokens.evaluation->windows);
  if (journal.has(entry) && (!dense.states || dense.states->complete(microbatches))) {
    const nlohmann::json found = journal.value(entry);
    dense.loss = {found.at("nll"), found.at("tokens")};
    return dense;
  }
  const fs::path& file = run.environment.dense_loss;
  const nlohmann::json fingerprint =
      dense_loss_fingerprint(run.job, *tokens.evaluation, run.source.files());
  if (!file.empty() && !dense.states) {
    if (const auto known = read_dense_loss(run.comm, file, fingerprint)) {
      dense.loss = *known;
      return dense;
    }
  }
  CheckpointEvaluation evaluation = evaluation_of(run, *tokens.evaluation, run.source, run.config);
  if (dense.states) {
    evaluation.keep = [&](int64_t first, const std::vector<at::Tensor>& states) {
      dense.states->put(first, states);
    };
  }
  dense.loss = evaluate(run, evaluation, "evaluate_dense").loss;
  if (run.root()) {
    journal.put_value(entry, {{"nll", dense.loss.nll}, {"tokens", dense.loss.tokens}});
    if (!file.empty()) write_dense_loss(file, fingerprint, dense.loss);
  }
  return dense;
}

std::optional<EvaluationSums> evaluate_compressed(JobContext& run, const JobTokens& tokens,
                                                  const std::optional<DenseEvaluation>& dense) {
  if (!tokens.evaluation) return std::nullopt;
  const CheckpointReader written(run.partial());
  const ModelConfig config = read_model_config(run.partial());
  CheckpointEvaluation evaluation = evaluation_of(run, *tokens.evaluation, written, config);
  std::optional<EvaluatedReference> reference;
  if (dense->states) {
    reference.emplace(EvaluatedReference{run.source, run.config, [&](int64_t microbatch) {
                                           return dense->states->get(microbatch);
                                         }});
    evaluation.reference = &*reference;
  }
  return evaluate(run, evaluation, "evaluate_compressed");
}

}  // namespace dotresize
