#include "worker/commands/eval/eval_command.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <fmt/core.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "base/process/program.h"
#include "base/text/human_text.h"
#include "base/text/printable.h"
#include "worker/commands/eval/measure_models.h"
#include "worker/commands/eval/reported_windows.h"
#include "worker/commands/progress_records.h"
#include "worker/commands/token_input.h"

namespace dotresize {
namespace {

using nlohmann::json;

bool comparable(const MeasuredModel& model, const MeasuredModel& first) {
  return model.vocab_size == first.vocab_size &&
         model.perplexity->tokens_fingerprint == first.perplexity->tokens_fingerprint;
}

json spread_json(const Spread& spread) {
  return {{"median", spread.median}, {"p10", spread.p10}, {"p90", spread.p90}};
}

json model_json(const MeasuredModel& model) {
  json object = {
      {"model", model.model.string()}, {"parameters", model.parameters}, {"bytes", model.bytes}};
  if (model.perplexity) {
    object["perplexity"] = model.perplexity->value;
    object["predicted_tokens"] = model.perplexity->predicted_tokens;
    object["seqlen"] = model.perplexity->seqlen;
    object["tokens_sha256"] = model.perplexity->tokens_fingerprint;
    if (const auto& divergence = model.perplexity->divergence) {
      object["kl"] = divergence->mean_kl();
      object["agreement"] = divergence->agreement();
    }
  }
  if (model.latency) {
    object["prompt_ms_per_token"] = spread_json(model.latency->prompt_ms);
    object["decode_ms_per_token"] = spread_json(model.latency->decode_ms);
  }
  if (!model.continuations.empty()) object["continuations"] = model.continuations;
  return object;
}

std::string spread_text(const Spread& spread) {
  return fmt::format("{:.3f} ({:.3f} - {:.3f})", spread.median, spread.p10, spread.p90);
}

std::vector<std::string> header(const EvalRequest& request) {
  std::vector<std::string> row = {"model", "parameters", "bytes"};
  if (request.perplexity()) row.insert(row.end(), {"perplexity", "change"});
  if (!request.reference.empty()) row.insert(row.end(), {"KL", "agreement"});
  if (request.latency) row.insert(row.end(), {"prompt ms/token", "decode ms/token"});
  return row;
}

std::vector<std::string> model_row(const EvalRequest& request, const MeasuredModel& model,
                                   const MeasuredModel& first) {
  std::vector<std::string> row = {model.model.string(), with_separators(model.parameters),
                                  human_bytes(model.bytes)};
  if (model.perplexity) {
    const double ratio = model.perplexity->value / first.perplexity->value;
    const bool changes = &model != &first && comparable(model, first);
    row.push_back(fmt::format("{:.4f}", model.perplexity->value));
    row.push_back(changes ? fmt::format("{:+.2f} %", 100.0 * (ratio - 1.0)) : "");
  }
  if (!request.reference.empty()) {
    const auto& divergence = model.perplexity->divergence;
    row.push_back(divergence ? format_nats(divergence->mean_kl()) : "");
    row.push_back(divergence ? format_percent(divergence->agreement()) : "");
  }
  if (model.latency) {
    row.push_back(spread_text(model.latency->prompt_ms));
    row.push_back(spread_text(model.latency->decode_ms));
  }
  return row;
}

/// Describes the conditions of the measurement.
std::string conditions(const EvalRequest& request, const MeasuredModel& first) {
  std::string text =
      fmt::format("float32, {} threads, {}\n", at::get_num_threads(),
                  request.runtime == Runtime::kOwn ? "dotresize's own runtime" : "transformers");
  if (first.perplexity) {
    text +=
        fmt::format("perplexity over {} tokens in windows of {}\n",
                    with_separators(first.perplexity->predicted_tokens), first.perplexity->seqlen);
  }
  if (!request.reference.empty()) {
    text += fmt::format("KL({} ‖ model) in nats a token; agreement: on the most likely token\n",
                        request.reference.string());
  }
  if (request.latency) {
    const LatencyOptions& options = request.latency_options;
    text += fmt::format(
        "latency: prompt of {} tokens, {} after it, batch {}; median (10th - 90th percentile) "
        "of {} repetitions after {} more\n",
        options.prompt, options.decode, options.batch, options.repetitions, options.warmup);
  }
  return text;
}

/// Returns a sentence for each model whose tokens or vocabulary differ from the first one's,
/// because perplexities over different tokens cannot be compared.
std::vector<std::string> comparison_warnings(const std::vector<MeasuredModel>& evaluations) {
  std::vector<std::string> warnings;
  const MeasuredModel& first = evaluations.front();
  for (const MeasuredModel& model : evaluations) {
    if (!model.perplexity || comparable(model, first)) continue;
    warnings.push_back(model.model.string() + " has another vocabulary or other tokens than " +
                       first.model.string() + ": their perplexities cannot be compared");
  }
  for (std::string& warning : seqlen_warnings(evaluations)) warnings.push_back(std::move(warning));
  return warnings;
}

/// Formats each model's continuation of each prompt, one below the other.
std::string continuations_text(const EvalRequest& request,
                               const std::vector<MeasuredModel>& evaluations) {
  std::string text;
  for (size_t i = 0; i < request.prompts.size(); ++i) {
    text += "\n" + printable(request.prompts[i]) + "\n";
    for (const MeasuredModel& model : evaluations) {
      text += "  " + model.model.string() + ": " + printable(model.continuations.at(i)) + "\n";
    }
  }
  return text;
}

/// Formats a row for each model, with changes of comparable perplexities against the first one.
std::string evaluation_table(const EvalRequest& request,
                             const std::vector<MeasuredModel>& evaluations) {
  std::vector<std::vector<std::string>> rows = {header(request)};
  for (const MeasuredModel& model : evaluations) {
    rows.push_back(model_row(request, model, evaluations.front()));
  }
  std::vector<Align> alignment(rows.front().size(), Align::kRight);
  alignment.front() = Align::kLeft;
  return format_table(rows, alignment) + "\n" + conditions(request, evaluations.front()) +
         continuations_text(request, evaluations);
}

/// Returns the document of `dotresize eval -o json` (docs/cli.md).
std::string evaluation_json(const EvalRequest& request,
                            const std::vector<MeasuredModel>& evaluations) {
  json document = {{"runtime", to_string(request.runtime)},
                   {"dtype", "float32"},
                   {"threads", at::get_num_threads()},
                   {"models", json::array()},
                   {"warnings", comparison_warnings(evaluations)}};
  if (request.latency) {
    const LatencyOptions& options = request.latency_options;
    document["latency"] = {{"prompt", options.prompt},
                           {"decode", options.decode},
                           {"batch", options.batch},
                           {"repetitions", options.repetitions},
                           {"warmup", options.warmup}};
  }
  if (!request.reference.empty()) document["reference"] = request.reference.string();
  if (request.generation()) {
    document["generation"] = {{"prompts", request.prompts}, {"new_tokens", request.new_tokens}};
  }
  for (const MeasuredModel& model : evaluations) document["models"].push_back(model_json(model));
  // Paths may not be UTF-8, but JSON must be.
  return document.dump(2, ' ', false, json::error_handler_t::replace) + "\n";
}

}  // namespace

int eval_command(const EvalRequest& asked, bool json, bool progress_records) {
  const c10::InferenceMode no_autograd;
  EvalRequest request = asked;
  take_reported_seqlen(request);
  ProgressLines lines;
  ProgressRecords records;
  Progress progress([&](const ProgressState& state) {
    progress_records ? records.show(state) : lines.show(state);
  });
  const std::filesystem::path cache_dir = token_cache_dir(request.source);
  const std::vector<MeasuredModel> results = measure_models(request, cache_dir, progress);
  for (const std::string& warning : comparison_warnings(results)) {
    fmt::print(stderr, "dotresize-worker: warning: {}\n", warning);
  }
  fmt::print("{}", json ? evaluation_json(request, results) : evaluation_table(request, results));
  return kExitOk;
}

}  // namespace dotresize
