#include "job/spec/command_options.h"

#include <map>

#include "base/process/environment.h"

namespace dotresize {
namespace {

const std::map<std::string, Runtime> kRuntimes = {
    {to_string(Runtime::kOwn), Runtime::kOwn},
    {to_string(Runtime::kTransformers), Runtime::kTransformers}};
constexpr int64_t kMax = int64_t{1} << 24;

struct Count {
  const char* name;
  int64_t LatencyOptions::*value;
  int64_t min;
  const char* description;
};

constexpr Count kLatencyCounts[] = {
    {"--prompt", &LatencyOptions::prompt, 1, "Tokens of the prompt"},
    {"--decode", &LatencyOptions::decode, 1, "Tokens after it, one at a time"},
    {"--batch", &LatencyOptions::batch, 1, "Sequences at once"},
    {"--repetitions", &LatencyOptions::repetitions, 1, "Measurements"},
    {"--warmup", &LatencyOptions::warmup, 0, "Runs before them that are not measured"},
};

void add_latency_options(CLI::App& app, EvalRequest& request) {
  auto* latency = app.add_flag("--latency", request.latency,
                               "Measure the time per token, in a prompt and in decoding after it");
  for (const Count& count : kLatencyCounts) {
    add_value(app, count.name, "N", request.latency_options.*count.value, count.description)
        ->check(CLI::Range(count.min, kMax).description(""))
        ->capture_default_str()
        ->needs(latency);
  }
}

/// Adds --text FILE... or --tokens FILE, and --seqlen. `purpose` begins their descriptions:
/// "Perplexity over".
void add_source_options(CLI::App& app, TokenSource& source, const std::string& purpose) {
  auto* group = app.add_option_group("source", "One of");
  add_value(*group, "--text", "FILE...", source.text,
            purpose + " text files, joined with a blank line");
  add_value(*group, "--tokens", "FILE", source.tokens,
            purpose + " a safetensors file with a tensor \"tokens\"");
  group->require_option(0, 1);
  add_value(app, "--seqlen", "N", source.seqlen,
            "Tokens per window (default: the token file's rows, else 2048, or the model's "
            "positions if they are fewer)")
      ->check(CLI::Range(int64_t{2}, int64_t{1} << 24).description(""));
}

/// Checks the options; called in the app's callback.
void check_source_options(const TokenSource& source) {
  if (source.seqlen && !source.given()) {
    throw CLI::ValidationError("--seqlen needs --text or --tokens");
  }
}

void append(std::vector<std::string>& arguments, const std::string& name,
            const std::string& value) {
  arguments.insert(arguments.end(), {name, value});
}

/// Appends the arguments that the options parse into `source`.
void append_source_arguments(const TokenSource& source, std::vector<std::string>& arguments) {
  for (const auto& file : source.text) append(arguments, "--text", file.string());
  if (!source.tokens.empty()) append(arguments, "--tokens", source.tokens.string());
  if (source.seqlen) append(arguments, "--seqlen", std::to_string(*source.seqlen));
}

}  // namespace

void refuse_empty_arguments(const CLI::App& app) {
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& given : option->results()) {
      if (given.empty()) throw CLI::ValidationError(option->get_name(), "must not be empty");
    }
    const std::string variable = option->get_envname();  // of a list, it may hold separators alone
    if (app.parsed() && option->empty() && !variable.empty() &&
        !environment_variable(variable.c_str()).empty()) {
      throw CLI::ValidationError(variable, "must not be empty");
    }
  }
  for (const CLI::App* part : app.get_subcommands(nullptr)) refuse_empty_arguments(*part);
}

void add_eval_options(CLI::App& app, EvalRequest& request) {
  add_argument(app, "MODEL_DIR", request.models, "Dense or compressed models");
  add_value(app, "--reference", "MODEL_DIR", request.reference,
            "Also compare the predictions with those of this model, which has the same "
            "vocabulary: KL divergence, and agreement on the most likely token");
  add_source_options(app, request.source, "Perplexity over");
  add_latency_options(app, request);
  auto* generate = add_value(app, "--generate", "TEXT", request.prompts,
                             "Let the models continue this text, to compare by reading; may "
                             "be given several times")
                       ->expected(1)
                       ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
                       ->allow_extra_args(false);
  add_value(app, "--new-tokens", "N", request.new_tokens, "Tokens generated after each such text")
      ->check(CLI::Range(int64_t{1}, int64_t{65536}).description(""))
      ->capture_default_str()
      ->needs(generate);
  add_value(app, "--runtime", "NAME", request.runtime,
            "own, or transformers: in a Python process, as a user would run the model")
      ->transform(CLI::CheckedTransformer(kRuntimes).description(""));
  app.callback([&request] {
    check_source_options(request.source);
    if (!request.perplexity() && !request.latency && !request.generation()) {
      throw CLI::ValidationError(
          "eval needs --text or --tokens for perplexity, --latency or --generate");
    }
    if (!request.reference.empty() && !request.perplexity()) {
      throw CLI::ValidationError("--reference needs --text or --tokens");
    }
    if (!request.reference.empty() && request.runtime == Runtime::kTransformers) {
      throw CLI::ValidationError("--reference does not go with --runtime transformers");
    }
    if (request.generation() && request.runtime == Runtime::kTransformers) {
      throw CLI::ValidationError("--generate does not go with --runtime transformers");
    }
  });
}

std::vector<std::string> eval_arguments(const EvalRequest& request) {
  std::vector<std::string> arguments = {"--runtime", to_string(request.runtime)};
  if (!request.reference.empty()) append(arguments, "--reference", request.reference.string());
  append_source_arguments(request.source, arguments);
  if (request.latency) {
    arguments.push_back("--latency");
    for (const Count& count : kLatencyCounts) {
      append(arguments, count.name, std::to_string(request.latency_options.*count.value));
    }
  }
  for (const std::string& prompt : request.prompts) {
    arguments.push_back("--generate=" + prompt);  // it may begin with a hyphen
  }
  if (request.generation()) append(arguments, "--new-tokens", std::to_string(request.new_tokens));
  arguments.push_back("--");
  for (const auto& model : request.models) arguments.push_back(model.string());
  return arguments;
}

void add_verify_options(CLI::App& app, VerifyRequest& request) {
  add_argument(app, "DIR", request.dir, "A model directory that dotresize wrote");
  add_value(app, "--against", "MODEL_DIR", request.against,
            "Model from which it was made: compare its hashes, and the outputs of both");
  add_source_options(app, request.source, "With --against: compare over");
  app.callback([&request] {
    check_source_options(request.source);
    if (request.against.empty() && request.source.given()) {
      throw CLI::ValidationError("--text and --tokens need --against");
    }
  });
}

std::vector<std::string> verify_arguments(const VerifyRequest& request) {
  std::vector<std::string> arguments;
  if (!request.against.empty()) append(arguments, "--against", request.against.string());
  append_source_arguments(request.source, arguments);
  append(arguments, "--", request.dir.string());
  return arguments;
}

}  // namespace dotresize
