#include "job/spec/eval_options.h"

#include <map>

#include "job/spec/source_options.h"

namespace dotresize {
namespace {

const std::map<std::string, Runtime> kRuntimes = {
    {to_string(Runtime::kOwn), Runtime::kOwn},
    {to_string(Runtime::kTransformers), Runtime::kTransformers}};
constexpr int64_t kMax = int64_t{1} << 24;

void add_latency_options(CLI::App& app, EvalRequest& request) {
  auto* latency = app.add_flag("--latency", request.latency,
                               "Time per token, of a prompt and of decoding after it");
  LatencyOptions& options = request.latency_options;
  const auto count = [&](const char* name, int64_t& value, int64_t min, const char* what) {
    app.add_option(name, value, what)
        ->type_name("N")
        ->check(CLI::Range(min, kMax).description(""))
        ->capture_default_str()
        ->needs(latency);
  };
  count("--prompt", options.prompt, 1, "Tokens of the prompt");
  count("--decode", options.decode, 1, "Tokens after it, one at a time");
  count("--batch", options.batch, 1, "Sequences at once");
  count("--repetitions", options.repetitions, 1, "Measurements");
  count("--warmup", options.warmup, 0, "Runs before them that are not measured");
}

}  // namespace

void add_eval_options(CLI::App& app, EvalRequest& request) {
  app.add_option("MODEL_DIR", request.models, "Dense or compressed models")
      ->required()
      ->type_name("");
  add_source_options(app, request.source, "Perplexity over");
  add_latency_options(app, request);
  app.add_option("--runtime", request.runtime,
                 "own, or transformers: in a Python process, as a user would run the model")
      ->type_name("NAME")
      ->transform(CLI::CheckedTransformer(kRuntimes).description(""));
  app.callback([&request] {
    check_source_options(request.source);
    if (!request.perplexity() && !request.latency) {
      throw CLI::ValidationError("eval needs --text or --tokens for perplexity, or --latency");
    }
  });
}

std::vector<std::string> eval_arguments(const EvalRequest& request) {
  std::vector<std::string> arguments = {"--runtime", to_string(request.runtime)};
  const auto add = [&](const std::string& name, const std::string& value) {
    arguments.insert(arguments.end(), {name, value});
  };
  append_source_arguments(request.source, arguments);
  if (request.latency) {
    const LatencyOptions& options = request.latency_options;
    arguments.push_back("--latency");
    add("--prompt", std::to_string(options.prompt));
    add("--decode", std::to_string(options.decode));
    add("--batch", std::to_string(options.batch));
    add("--repetitions", std::to_string(options.repetitions));
    add("--warmup", std::to_string(options.warmup));
  }
  arguments.push_back("--");
  for (const auto& model : request.models) arguments.push_back(model.string());
  return arguments;
}

}  // namespace dotresize
