#include "worker/commands/eval/measure_models.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/errors.h"
#include "base/files/directory.h"
#include "base/files/durable_file.h"
#include "base/files/input_file.h"
#include "base/text/checked_json.h"
#include "job/checkpoint/source_model.h"
#include "job/model/model_size.h"
#include "job/model/output_config.h"
#include "job/model/tensor_table.h"
#include "job/model/tokenizer_steps.h"
#include "job/plan/resolved_job.h"
#include "worker/commands/kept_states.h"
#include "worker/commands/token_input.h"
#include "worker/evaluation/perplexity.h"
#include "worker/evaluation/whole_model.h"
#include "worker/python/python_helper.h"

namespace dotresize {
namespace fs = std::filesystem;
namespace {

using Json = nlohmann::json;

constexpr size_t kMaxFileBytes = 16 << 20;

void check_positions(const fs::path& model_dir, const ModelConfig& config, const std::string& what,
                     int64_t tokens) {
  if (tokens <= config.longest_window()) return;
  throw InputError(model_dir.string() + ": " + what + " of " + std::to_string(tokens) +
                   " tokens exceed the model's longest window, " +
                   std::to_string(config.longest_window()) + " (max_position_embeddings)");
}

/// Runs the tokenizer with this `direction` on a document, and returns the resulting one.
Json translate(const char* direction, const fs::path& model_dir, const std::string& document) {
  const ScratchDirectory scratch;
  const fs::path from = scratch.path() / "from.json";
  const fs::path to = scratch.path() / "to.json";
  write_file_atomically(from, document);
  run_tokenizer({direction, model_dir.string(), from.string(), to.string()});
  constexpr uint64_t kMaxBytes = uint64_t{64} << 20;
  return Json::parse(read_whole_file(to, kMaxBytes));
}

/// True if transformers may run the Python code of a model directory: config.json names the code of
/// this version of dotresize, and the directory holds it byte for byte. False if the model needs no
/// code. Throws InputError for any other code, which would be run unseen.
bool may_run_code(const fs::path& model_dir, const ModelConfig& config) {
  if (!config.compressed) return false;
  const auto refuse = [&](const std::string& file, const std::string& what) {
    throw InputError((model_dir / file).string() + ": " + what +
                     ": untrusted code, which --runtime transformers does not run");
  };
  const Json keys = read_json_object(model_dir / "config.json", kMaxFileBytes);
  if (!keys.contains("auto_map") || keys.at("auto_map") != custom_code_map(config)) {
    refuse("config.json", "auto_map does not name the code of dotresize");
  }
  for (const auto& [name, expected] : output_code(!config.form.norm_weights)) {
    const std::string file = std::string(name) + ".py";
    if (read_whole_file(model_dir / file, kMaxFileBytes) != expected) {
      refuse(file, "not the file that this version of dotresize writes");
    }
  }
  return true;
}

/// Measurements by transformers in float32.
struct TransformersResult {
  std::optional<double> perplexity;
  std::optional<LatencySamples> latency;
};

/// Runs the model in transformers, in a Python process, offline and with as many threads as this
/// process. `token_file`: tokens for perplexity over windows of `seqlen`; empty: no perplexity.
/// Throws InputError if the model cannot be loaded, std::runtime_error if Python or transformers
/// fail.
TransformersResult run_in_transformers(const fs::path& model_dir, const ModelConfig& config,
                                       const fs::path& token_file, int64_t seqlen,
                                       const std::optional<LatencyOptions>& latency) {
  const ScratchDirectory scratch;
  const fs::path out = scratch.path() / "result.json";
  std::vector<std::string> arguments = {fs::absolute(model_dir).string(), out.string(), "--threads",
                                        std::to_string(at::get_num_threads())};
  if (may_run_code(model_dir, config)) arguments.emplace_back("--trust-remote-code");
  if (!token_file.empty()) {
    arguments.insert(arguments.end(), {"--tokens", fs::absolute(token_file).string(), "--seqlen",
                                       std::to_string(seqlen)});
  }
  if (latency) {
    const std::array<std::pair<const char*, int64_t>, 6> numbers = {
        {{"--prompt", latency->prompt},
         {"--decode", latency->decode},
         {"--batch", latency->batch},
         {"--repetitions", latency->repetitions},
         {"--warmup", latency->warmup},
         {"--seed", static_cast<int64_t>(latency->seed)}}};
    arguments.emplace_back("--latency");
    for (const auto& [name, number] : numbers) {
      arguments.insert(arguments.end(), {name, std::to_string(number)});
    }
  }
  run_python_helper("transformers", run_in_transformers_py(), arguments);

  const Json document = read_json_object(out, kMaxFileBytes);
  TransformersResult result;
  if (!token_file.empty()) result.perplexity = document.at("perplexity").get<double>();
  if (latency) {
    result.latency = LatencySamples{document.at("prompt_ms").get<std::vector<double>>(),
                                    document.at("decode_ms").get<std::vector<double>>()};
  }
  return result;
}

/// One model of a request. Its configuration and tokens are loaded before the measurement.
class Evaluation {
 public:
  /// Loads the model `number` of `count`, counted from 1. `source`: the request's, with the default
  /// window length.
  Evaluation(const EvalRequest& request, const TokenSource& source, const fs::path& model,
             ModelConfig config, size_t number, size_t count, const fs::path& cache_dir);

  std::vector<ProgressPhase> phases() const;
  /// Measures the model. `kept`: final states over the same windows; the reference stores them, and
  /// other models are compared with them. Null: no comparison.
  MeasuredModel measure(Progress& progress, const Evaluation* reference, KeptStates* kept);
  /// Throws InputError if the predictions of the models cannot be compared.
  void require_comparable(const Evaluation& reference) const;

 private:
  std::string phase_name(const char* what) const;
  void load_prompts();
  void own_perplexity(Progress& progress, const Evaluation* reference, KeptStates* kept);
  void own_generation(Progress& progress);

  const EvalRequest& request_;
  const size_t number_;
  const size_t count_;
  const ModelConfig config_;
  CheckpointReader reader_;
  MeasuredModel result_;
  std::optional<SourceTokens> tokens_;  // absent: no perplexity
  at::Tensor windows_;
  std::vector<at::Tensor> prompts_;  // ids [1, n] int64 for each prompt
};

constexpr char kPerplexityPhase[] = "perplexity";
constexpr char kLatencyPhase[] = "latency";
constexpr char kGenerationPhase[] = "generate";
constexpr char kTransformersPhase[] = "in transformers";

/// Returns the config of a model whose weights are read. Prints the reader's warnings. `text`: the
/// model's tokenizer is used.
ModelConfig read_and_warn(const fs::path& model, bool text) {
  SourceModel source = read_model_with_weights(model);
  if (text) source.warnings.push_back(warning_about_tokenizer(model, source.config));
  for (const std::string& warning : source.warnings) {
    if (!warning.empty()) fmt::print(stderr, "warning: {}: {}\n", model.string(), warning);
  }
  return std::move(source.config);
}

Evaluation::Evaluation(const EvalRequest& request, const TokenSource& source, const fs::path& model,
                       ModelConfig config, size_t number, size_t count, const fs::path& cache_dir)
    : request_(request),
      number_(number),
      count_(count),
      config_(std::move(config)),
      reader_(model, config_) {
  result_.model = model;
  result_.vocab_size = config_.vocab_size;
  result_.parameters = stored_parameters(config_);
  result_.bytes = stored_bytes(config_);
  if (request.runtime == Runtime::kTransformers) may_run_code(result_.model, config_);
  if (request.perplexity()) {
    SelfCommunicator self;
    const TokenReader token_reader{result_.model, config_, cache_dir};
    const TokenWindows tokens = load_evaluation_windows(self, EvaluationSource{source},
                                                        /*calibration=*/{}, token_reader);
    tokens_.emplace(token_file(source, token_reader));
    windows_ = tokens.windows;
    const int64_t seqlen = windows_.size(1);
    check_positions(result_.model, config_, "windows", seqlen);
    result_.perplexity = {0.0, windows_.size(0) * (seqlen - 1), seqlen, tokens.fingerprint};
  }
  if (request.latency) {
    check_positions(result_.model, config_, "prompt and decoding",
                    request.latency_options.tokens());
  }
  if (request.generation()) load_prompts();
}

/// Tokenises the prompts with the model's own tokenizer. Throws InputError if it is missing, or if
/// a prompt has no tokens.
void Evaluation::load_prompts() {
  std::string document;
  try {
    document = Json(request_.prompts).dump();
  } catch (const Json::type_error&) {
    throw InputError("--generate", "a prompt is not UTF-8");
  }
  int64_t longest = 0;
  for (const Json& row : translate("--encode", result_.model, document)) {
    const auto ids = row.get<std::vector<int64_t>>();
    if (std::ranges::max(ids) >= config_.vocab_size) {
      throw InputError(result_.model.string() + ": its tokenizer knows the token " +
                       std::to_string(std::ranges::max(ids)) + ", but the model has only " +
                       std::to_string(config_.vocab_size));
    }
    prompts_.push_back(at::tensor(ids, at::kLong).view({1, -1}));
    longest = std::max(longest, std::ssize(ids));
  }
  check_positions(result_.model, config_, "text and continuation", longest + request_.new_tokens);
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
    for (const at::Tensor& ids : prompts_) tokens += ids.size(1) + request_.new_tokens - 1;
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
    throw InputError(both + "its tokenizer gives different tokens for the text");
  }
}

MeasuredModel Evaluation::measure(Progress& progress, const Evaluation* reference,
                                  KeptStates* kept) {
  const auto set_latency = [&](const LatencySamples& samples) {
    result_.latency = {spread_of(samples.prompt_ms), spread_of(samples.decode_ms)};
  };
  if (request_.runtime == Runtime::kTransformers) {
    progress.enter(phase_name(kTransformersPhase));
    std::optional<LatencyOptions> latency;
    if (request_.latency) latency = request_.latency_options;
    const TransformersResult measured =
        run_in_transformers(result_.model, config_, tokens_ ? tokens_->file : fs::path(),
                            result_.perplexity ? result_.perplexity->seqlen : 0, latency);
    if (measured.perplexity) result_.perplexity->value = *measured.perplexity;
    if (measured.latency) set_latency(*measured.latency);
    return result_;
  }
  if (request_.perplexity()) own_perplexity(progress, reference, kept);
  if (request_.latency) {
    progress.enter(phase_name(kLatencyPhase));
    const WholeModel model = load_whole_model(reader_, config_, at::kFloat);
    set_latency(measure_latency(model, request_.latency_options,
                                [&](int64_t tokens) { progress.add({.tokens = tokens}); }));
  }
  if (request_.generation()) own_generation(progress);
  return result_;
}

void Evaluation::own_perplexity(Progress& progress, const Evaluation* reference, KeptStates* kept) {
  progress.enter(phase_name(kPerplexityPhase));
  CheckpointEvaluation evaluation{
      .reader = reader_,
      .config = config_,
      .windows = windows_,
      .tokens_at_once = kTokensAtOnceAlone,
      .tokens_seen = [&](int64_t tokens) { progress.add({.tokens = tokens}); }};
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

/// Continues each prompt by `new_tokens` tokens, always the likeliest one, so that two models can
/// be compared.
void Evaluation::own_generation(Progress& progress) {
  progress.enter(phase_name(kGenerationPhase));
  const WholeModel model = load_whole_model(reader_, config_, at::kFloat);
  Json rows = Json::array();
  for (const at::Tensor& ids : prompts_) {
    Decoder decoder(model, 1, ids.size(1) + request_.new_tokens);
    std::vector<int64_t> written;
    at::Tensor next = ids;
    while (std::ssize(written) < request_.new_tokens) {
      const at::Tensor likeliest = decoder.read(next).argmax(-1);
      progress.add({.tokens = next.size(1)});
      written.push_back(likeliest.item<int64_t>());
      next = likeliest.view({1, 1});
    }
    rows.push_back(std::move(written));
  }
  result_.continuations =
      translate("--decode", result_.model, rows.dump()).get<std::vector<std::string>>();
}

/// The reference's final states, kept on disk while the other models are measured.
struct ScratchStates {
  ScratchDirectory directory;
  Journal journal{directory.path()};
  KeptStates kept{journal, entries::kStates()};
};

}  // namespace

std::vector<MeasuredModel> measure_models(const EvalRequest& request, const fs::path& cache_dir,
                                          Progress& progress) {
  const bool compared = !request.reference.empty();
  std::vector<fs::path> dirs = request.models;
  if (compared) dirs.insert(dirs.begin(), request.reference);
  std::vector<ModelConfig> configs;
  configs.reserve(dirs.size());
  // All models are measured over the same windows, for which the one of fewest positions decides.
  TokenSource source = request.source;
  for (const fs::path& dir : dirs) {
    const int64_t seqlen =
        default_seqlen(configs.emplace_back(read_and_warn(dir, !source.text.empty())));
    source.default_seqlen = std::min(seqlen, source.default_seqlen.value_or(seqlen));
  }
  std::vector<Evaluation> models;
  std::vector<ProgressPhase> phases;
  models.reserve(dirs.size());
  for (size_t i = 0; i < dirs.size(); ++i) {
    const Evaluation& model = models.emplace_back(request, source, dirs[i], std::move(configs[i]),
                                                  i + 1, dirs.size(), cache_dir);
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
