#include <ATen/ATen.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/errors.h"
#include "base/files/cache_files.h"
#include "base/files/durable_file.h"
#include "base/text/checked_json.h"
#include "job/checkpoint/source_model.h"
#include "worker/commands/run/job_steps.h"
#include "worker/commands/run/output/fingerprints.h"
#include "worker/transformer/stage/microbatches.h"

namespace dotresize {
namespace fs = std::filesystem;
namespace {

using Json = nlohmann::json;

constexpr int64_t kHeldOutOneIn = 8;
constexpr char kDenseLossOption[] = "--dense-loss";
constexpr size_t kMaxDenseLossBytes = 16 << 20;

/// Returns on every rank the dense model's loss that jobs share which are evaluated on the same
/// tokens (`dotresize-worker --dense-loss FILE`); nothing if there is no file that
/// matches its seal and has these stamps of the inputs. It is JSON with the loss and the
/// fingerprint of its inputs. Throws InputError if it belongs to another model or other tokens.
/// Collective.
std::optional<NegativeLogLikelihood> read_dense_loss(Communicator& comm, const fs::path& file,
                                                     const Json& fingerprint, const Json& stamps) {
  std::string text;
  if (comm.rank() == 0 && is_sealed(file)) {
    const Json found = read_json_object(file, kMaxDenseLossBytes);
    const std::string what =
        difference(fingerprint, found.value("of", Json::object()), file.filename().string());
    if (!what.empty()) {
      throw InputError(kDenseLossOption, file.string() + " holds a different loss: " + what);
    }
    const bool same_inputs = found.value(kInputStamps, Json()) == stamps;
    const Json nll = found.value("nll", Json());
    const Json tokens = found.value("tokens", Json());
    if (!nll.is_number() || !tokens.is_number_integer() || tokens < 1) {
      throw InputError(kDenseLossOption, file.string() + " is damaged: it has no loss");
    }
    if (same_inputs) text = Json{{"nll", nll}, {"tokens", tokens}}.dump();
  }
  text = broadcast_string(comm, text, 0);
  if (text.empty()) return std::nullopt;
  const Json loss = Json::parse(text);
  return NegativeLogLikelihood{loss.at("nll"), loss.at("tokens")};
}

EvaluationSums evaluate(JobContext& run, const CheckpointEvaluation& evaluation,
                        const std::string& phase) {
  const PhaseClock::Scope scope(run.clock, phase);
  run.progress.enter(phase);
  return evaluate_checkpoint(run.comm, evaluation);
}

}  // namespace

SplitWindows split_windows(const at::Tensor& all) {
  const int64_t windows = all.size(0);
  if (windows == 1) return {all, all, {0}, {0}};
  std::vector<int64_t> fitted;
  std::vector<int64_t> held_out;
  for (int64_t window = 0; window < windows; ++window) {
    const bool last_of_few = windows < kHeldOutOneIn && window + 1 == windows;
    const bool is_held_out = window % kHeldOutOneIn == kHeldOutOneIn - 1 || last_of_few;
    (is_held_out ? held_out : fitted).push_back(window);
  }
  const auto rows = [&](const std::vector<int64_t>& of) {
    return all.index_select(0, at::tensor(of, at::kLong));
  };
  return {rows(fitted), rows(held_out), fitted, held_out};
}

CheckpointEvaluation evaluation_of(const JobContext& run, const CheckpointReader& reader,
                                   const ModelConfig& config, const at::Tensor& windows) {
  return {.reader = reader,
          .config = config,
          .windows = windows,
          .compute_dtype = run.compute_dtype,
          .device = run.environment.device.device,
          .tokens_at_once = expected_tokens(run.job, run.config),
          .tokens_seen = run.count_tokens};
}

void keep_dense_states(JobContext& run, const at::Tensor& windows, KeptStates& states) {
  if (states.complete(count_microbatches(windows))) return;
  CheckpointEvaluation dense = evaluation_of(run, run.source, run.config, windows);
  dense.tokens_seen = [](int64_t) {};
  dense.keep = [&](int64_t first, const std::vector<at::Tensor>& of_microbatches) {
    states.put(first, of_microbatches);
  };
  evaluate_checkpoint(run.comm, dense);
}

std::optional<DenseEvaluation> evaluate_dense(JobContext& run, const JobTokens& tokens,
                                              Journal& journal) {
  if (!tokens.evaluation) return std::nullopt;
  const std::string entry = entries::kDenseLoss(name_of(*tokens.evaluation));
  DenseEvaluation dense;
  if (run.job.evaluation->kl)
    dense.states.emplace(journal, entries::kStates(name_of(*tokens.evaluation)));
  const int64_t microbatches = count_microbatches(tokens.evaluation->windows);
  if (journal.has(entry) && (!dense.states || dense.states->complete(microbatches))) {
    const Json found = journal.value(entry);
    dense.loss = {found.at("nll"), found.at("tokens")};
    return dense;
  }
  const fs::path& file = run.environment.dense_loss;
  const Json fingerprint = dense_loss_fingerprint(run.job, *tokens.evaluation, run.source.files());
  const Json stamps = stamps_to_json(run.inputs());
  if (!file.empty() && !dense.states) {
    if (const auto known = read_dense_loss(run.comm, file, fingerprint, stamps)) {
      dense.loss = *known;
      return dense;
    }
  }
  CheckpointEvaluation evaluation =
      evaluation_of(run, run.source, run.config, tokens.evaluation->windows);
  if (dense.states) {
    evaluation.keep = [&](int64_t first, const std::vector<at::Tensor>& states) {
      dense.states->put(first, states);
    };
  }
  dense.loss = evaluate(run, evaluation, "evaluate_dense").loss;
  if (run.root) {
    journal.put_value(entry, {{"nll", dense.loss.nll}, {"tokens", dense.loss.tokens}});
    if (!file.empty()) {
      const Json content = {{"of", fingerprint},
                            {kInputStamps, stamps},
                            {"nll", dense.loss.nll},
                            {"tokens", dense.loss.tokens}};
      write_file_atomically(file, content.dump(2) + "\n");
      seal_file(file);
    }
  }
  return dense;
}

std::optional<EvaluationSums> evaluate_compressed(JobContext& run, const JobTokens& tokens,
                                                  const std::optional<DenseEvaluation>& dense) {
  if (!tokens.evaluation) return std::nullopt;
  const ModelConfig config = read_source_model(run.partial).config;
  const CheckpointReader written(run.partial, config);
  CheckpointEvaluation evaluation = evaluation_of(run, written, config, tokens.evaluation->windows);
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
