#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <fmt/core.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/files/partial_path.h"
#include "base/process/program.h"
#include "base/text/human_text.h"
#include "base/text/printable.h"
#include "job/report/stored_report.h"
#include "worker/commands/eval/measure_models.h"
#include "worker/commands/progress.h"
#include "worker/commands/token_input.h"
#include "worker/commands/worker_program.h"

namespace dotresize {
namespace {

using nlohmann::json;

bool comparable(const MeasuredModel& model, const MeasuredModel& first) {
  return model.vocab_size == first.vocab_size &&
         model.perplexity->tokens_fingerprint == first.perplexity->tokens_fingerprint;
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
    const auto spread = [](const Spread& of) -> json {
      return {{"median", of.median}, {"p10", of.p10}, {"p90", of.p90}};
    };
    object["prompt_ms_per_token"] = spread(model.latency->prompt_ms);
    object["decode_ms_per_token"] = spread(model.latency->decode_ms);
  }
  if (!model.continuations.empty()) object["continuations"] = model.continuations;
  return object;
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
    for (const Spread& spread : {model.latency->prompt_ms, model.latency->decode_ms}) {
      row.push_back(fmt::format("{:.3f} ({:.3f} - {:.3f})", spread.median, spread.p10, spread.p90));
    }
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

/// Returns the window length of the perplexity in the model's report; nothing if it has none.
/// Throws InputError for a report that cannot be read.
std::optional<int64_t> reported_seqlen(const std::filesystem::path& model_dir) {
  if (!is_model_of_dotresize(model_dir)) return std::nullopt;
  const ReportSummary report = read_report_summary(model_dir);
  if (!report.compressed.perplexity) return std::nullopt;
  return report.evaluation ? report.evaluation->seqlen : std::nullopt;
}

/// Returns a sentence for each perplexity that cannot be compared with the first model's, because
/// the tokens differ, and for each that cannot be compared with the one in its model's report,
/// because the windows differ.
std::vector<std::string> comparison_warnings(const std::vector<MeasuredModel>& evaluations) {
  std::vector<std::string> warnings;
  const MeasuredModel& first = evaluations.front();
  for (const MeasuredModel& model : evaluations) {
    if (!model.perplexity || comparable(model, first)) continue;
    warnings.push_back(model.model.string() + " has a different vocabulary or tokenization from " +
                       first.model.string() + ": their perplexities cannot be compared");
  }
  for (const MeasuredModel& model : evaluations) {
    if (!model.perplexity) continue;
    const auto reported = reported_seqlen(model.model);
    if (reported.value_or(model.perplexity->seqlen) == model.perplexity->seqlen) continue;
    warnings.push_back(fmt::format(
        "{}: the perplexity is over windows of {} tokens, that of its report over windows of {}: "
        "they cannot be compared (--seqlen {} measures it again)",
        model.model.string(), model.perplexity->seqlen, *reported, *reported));
  }
  return warnings;
}

/// Formats a row for each model, with changes of comparable perplexities against the first one, the
/// conditions, and each model's continuation of each prompt, one below the other.
std::string evaluation_table(const EvalRequest& request,
                             const std::vector<MeasuredModel>& evaluations) {
  std::vector<std::string> header = {"model", "parameters", "bytes"};
  if (request.perplexity()) header.insert(header.end(), {"perplexity", "change"});
  if (!request.reference.empty()) header.insert(header.end(), {"KL", "agreement"});
  if (request.latency) header.insert(header.end(), {"prompt ms/token", "decode ms/token"});
  std::vector<Align> alignment(header.size(), Align::kRight);
  alignment.front() = Align::kLeft;
  std::vector<std::vector<std::string>> rows = {std::move(header)};
  for (const MeasuredModel& model : evaluations) {
    rows.push_back(model_row(request, model, evaluations.front()));
  }
  std::string text =
      format_table(rows, alignment) + "\n" + conditions(request, evaluations.front());
  for (size_t i = 0; i < request.prompts.size(); ++i) {
    text += "\n" + printable(request.prompts[i]) + "\n";
    for (const MeasuredModel& model : evaluations) {
      text += "  " + model.model.string() + ": " + printable(model.continuations.at(i)) + "\n";
    }
  }
  return text;
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
  if (!request.source.text.empty()) {
    // Perplexities depend on the window length: take that of the first report which has one.
    for (size_t i = 0; i < request.models.size() && !request.source.seqlen; ++i) {
      request.source.seqlen = reported_seqlen(request.models[i]);
    }
  }
  ProgressPrinter printer(progress_records);
  Progress progress([&](const v1::Progress& state) { printer.show(state); });
  const TokenCache cache = TokenCache::of_user();
  const std::vector<MeasuredModel> results = measure_models(request, cache.path(), progress);
  for (const std::string& warning : comparison_warnings(results)) {
    fmt::print(stderr, "dotresize-worker: warning: {}\n", warning);
  }
  fmt::print("{}", json ? evaluation_json(request, results) : evaluation_table(request, results));
  return kExitOk;
}

}  // namespace dotresize
