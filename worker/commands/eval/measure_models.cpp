#include "worker/commands/eval/measure_models.h"

#include <ATen/ATen.h>

#include <utility>

#include "base/errors.h"
#include "base/files/directory.h"
#include "job/model/model_size.h"
#include "job/model/read_model_config.h"
#include "job/model/tensor_table.h"
#include "worker/commands/eval/generation.h"
#include "worker/commands/eval/transformers_runtime.h"
#include "worker/commands/kept_states.h"
#include "worker/commands/token_input.h"
#include "worker/evaluation/perplexity.h"

namespace dotresize {
namespace fs = std::filesystem;
namespace {

int64_t stored_bytes(const CheckpointReader& reader, const ModelConfig& config) {
  int64_t bytes = 0;
  for (const auto& [name, shape] : expected_shapes(config)) {
    bytes += static_cast<int64_t>(reader.get(name, shape).nbytes());
  }
  return bytes;
}

void check_positions(const fs::path& model_dir, const ModelConfig& config, const std::string& what,
                     int64_t tokens) {
  if (tokens <= config.longest_window()) return;
  throw InputError(model_dir.string() + ": " + what + " of " + std::to_string(tokens) +
                   " tokens exceed the model's longest window, " +
                   std::to_string(config.longest_window()) + " (max_position_embeddings)");
}

/// One model of a request. Its configuration and tokens are loaded before the measurement.
class Evaluation {
 public:
  /// Loads the model `number` of `count`, counted from 1.
  Evaluation(const EvalRequest& request, const fs::path& model, size_t number, size_t count,
             const fs::path& cache_dir);

  std::vector<ProgressPhase> phases() const;
  /// Measures the model. `kept`: final states over the same windows; the reference stores them, and
  /// other models are compared with them. Null: no comparison.
  MeasuredModel measure(Progress& progress, const Evaluation* reference, KeptStates* kept);
  /// Throws InputError if the predictions of the models cannot be compared.
  void require_comparable(const Evaluation& reference) const;

 private:
  std::string phase_name(const char* what) const;
  void load_windows(const fs::path& cache_dir);
  void own_perplexity(Progress& progress, const Evaluation* reference, KeptStates* kept);
  void own_latency(Progress& progress);
  void own_generation(Progress& progress);
  void in_transformers();
  void set_latency(const LatencySamples& samples) {
    result_.latency = {spread_of(samples.prompt_ms), spread_of(samples.decode_ms)};
  }

  const EvalRequest& request_;
  size_t number_;
  size_t count_;
  ModelConfig config_;
  CheckpointReader reader_;
  MeasuredModel result_;
  fs::path token_file_;  // empty: no perplexity
  at::Tensor windows_;
  PromptIds prompts_;
};

constexpr char kPerplexityPhase[] = "perplexity";
constexpr char kLatencyPhase[] = "latency";
constexpr char kGenerationPhase[] = "generate";
constexpr char kTransformersPhase[] = "in transformers";

Evaluation::Evaluation(const EvalRequest& request, const fs::path& model, size_t number,
                       size_t count, const fs::path& cache_dir)
    : request_(request),
      number_(number),
      count_(count),
      config_(read_model_config(model)),
      reader_(model) {
  result_.model = model;
  result_.vocab_size = config_.vocab_size;
  result_.parameters = stored_parameters(config_);
  result_.bytes = stored_bytes(reader_, config_);
  if (request.runtime == Runtime::kTransformers) may_run_code(result_.model, config_);
  if (request.perplexity()) load_windows(cache_dir);
  if (request.latency) {
    check_positions(result_.model, config_, "prompt and decoding",
                    request.latency_options.tokens());
  }
  if (request.generation()) {
    prompts_ = tokenize_prompts(request.prompts, result_.model, config_.vocab_size);
    check_positions(result_.model, config_, "text and continuation",
                    prompts_.longest + request.new_tokens);
  }
}

void Evaluation::load_windows(const fs::path& cache_dir) {
  SelfCommunicator self;
  const TokenWindows tokens =
      load_token_windows(self, request_.source, {}, result_.model, config_, cache_dir);
  token_file_ = token_file(request_.source, result_.model, cache_dir);
  windows_ = tokens.windows;
  const int64_t seqlen = windows_.size(1);
  check_positions(result_.model, config_, "windows", seqlen);
  result_.perplexity = {0.0, windows_.size(0) * (seqlen - 1), seqlen, tokens.fingerprint};
}

std::string Evaluation::phase_name(const char* what) const {
  return std::to_string(number_) + "/" + std::to_string(count_) + " " + result_.model.string() +
         ": " + what;
}

std::vector<ProgressPhase> Evaluation::phases() const {
  const LatencyOptions& options = request_.latency_options;
  const int64_t scored = windows_.defined() ? windows_.numel() : 0;
  const int64_t timed =
      request_.latency ? options.batch * options.tokens() * (options.warmup + options.repetitions)
                       : 0;
  if (request_.runtime == Runtime::kTransformers) {
    return {{.name = phase_name(kTransformersPhase),
             .uncounted_seconds = static_cast<double>(scored + timed)}};
  }
  std::vector<ProgressPhase> phases;
  if (scored > 0) {
    phases.push_back({phase_name(kPerplexityPhase), {scored, static_cast<double>(scored)}});
  }
  if (timed > 0) {
    phases.push_back({phase_name(kLatencyPhase), {timed, static_cast<double>(timed)}});
  }
  if (request_.generation()) {
    int64_t tokens = 0;
    for (const at::Tensor& ids : prompts_.ids) tokens += ids.size(1) + request_.new_tokens - 1;
    phases.push_back({phase_name(kGenerationPhase), {tokens, static_cast<double>(tokens)}});
  }
  return phases;
}

void Evaluation::require_comparable(const Evaluation& reference) const {
  const std::string both = result_.model.string() + ": cannot be compared with " +
                           reference.result_.model.string() + ": ";
  if (config_.vocab_size != reference.config_.vocab_size) {
    throw InputError(both + "its vocabulary has " + std::to_string(config_.vocab_size) +
                     " tokens, not " + std::to_string(reference.config_.vocab_size));
  }
  if (result_.perplexity->tokens_fingerprint != reference.result_.perplexity->tokens_fingerprint) {
    throw InputError(both + "its tokenizer reads the text as other tokens");
  }
}

MeasuredModel Evaluation::measure(Progress& progress, const Evaluation* reference,
                                  KeptStates* kept) {
  if (request_.runtime == Runtime::kTransformers) {
    progress.enter(phase_name(kTransformersPhase));
    in_transformers();
  } else {
    if (request_.perplexity()) own_perplexity(progress, reference, kept);
    if (request_.latency) own_latency(progress);
    if (request_.generation()) own_generation(progress);
  }
  return result_;
}

void Evaluation::own_perplexity(Progress& progress, const Evaluation* reference, KeptStates* kept) {
  progress.enter(phase_name(kPerplexityPhase));
  CheckpointEvaluation evaluation{
      .reader = reader_,
      .config = config_,
      .windows = windows_,
      .tokens_at_once = tokens_at_once_alone(),
      .tokens_seen = [&](int64_t tokens) { progress.tokens_seen(tokens); }};
  std::optional<EvaluatedReference> compared;
  if (reference != nullptr) {
    compared.emplace(EvaluatedReference{reference->reader_, reference->config_,
                                        [&](int64_t microbatch) { return kept->get(microbatch); }});
    evaluation.reference = &*compared;
  } else if (kept != nullptr) {
    evaluation.keep = [&](int64_t first, const std::vector<at::Tensor>& states) {
      kept->put(first, states);
    };
  }
  SelfCommunicator self;
  const EvaluationSums sums = evaluate_checkpoint(self, evaluation);
  result_.perplexity->value = sums.loss.perplexity();
  result_.perplexity->divergence = sums.divergence;
}

void Evaluation::own_latency(Progress& progress) {
  progress.enter(phase_name(kLatencyPhase));
  const WholeModel model = load_whole_model(reader_, config_, at::kFloat);
  set_latency(measure_latency(model, request_.latency_options,
                              [&](int64_t tokens) { progress.tokens_seen(tokens); }));
}

void Evaluation::own_generation(Progress& progress) {
  progress.enter(phase_name(kGenerationPhase));
  const WholeModel model = load_whole_model(reader_, config_, at::kFloat);
  result_.continuations = continue_prompts(model, result_.model, prompts_, request_.new_tokens,
                                           [&](int64_t tokens) { progress.tokens_seen(tokens); });
}

void Evaluation::in_transformers() {
  std::optional<LatencyOptions> latency;
  if (request_.latency) latency = request_.latency_options;
  const TransformersResult measured =
      run_in_transformers(result_.model, config_, token_file_,
                          result_.perplexity ? result_.perplexity->seqlen : 0, latency);
  if (measured.perplexity) result_.perplexity->value = *measured.perplexity;
  if (measured.latency) set_latency(*measured.latency);
}

/// The reference's final states, kept on disk while the other models are measured.
struct ScratchStates {
  ScratchDirectory directory;
  Journal journal{directory.path()};
  KeptStates kept{journal, "states"};
};

}  // namespace

std::vector<MeasuredModel> measure_models(const EvalRequest& request, const fs::path& cache_dir,
                                          Progress& progress) {
  const bool compared = !request.reference.empty();
  std::vector<fs::path> dirs = request.models;
  if (compared) dirs.insert(dirs.begin(), request.reference);
  std::vector<Evaluation> models;
  std::vector<ProgressPhase> phases;
  models.reserve(dirs.size());
  for (const fs::path& dir : dirs) {
    const Evaluation& model =
        models.emplace_back(request, dir, models.size() + 1, dirs.size(), cache_dir);
    if (compared) model.require_comparable(models.front());
    for (ProgressPhase& phase : model.phases()) phases.push_back(std::move(phase));
  }
  progress.plan(std::move(phases));
  std::optional<ScratchStates> scratch;
  if (compared) scratch.emplace();
  std::vector<MeasuredModel> results;
  results.reserve(models.size());
  for (Evaluation& model : models) {
    const bool first = &model == &models.front();
    results.push_back(model.measure(progress, compared && !first ? &models.front() : nullptr,
                                    compared ? &scratch->kept : nullptr));
  }
  return results;
}

}  // namespace dotresize
