#include "job/model/tokenizer_steps.h"

#include <array>
#include <nlohmann/json.hpp>

#include "base/errors.h"
#include "base/files/input_file.h"
#include "job/model/read_model_config.h"
#include "job/model/tokenizer_class.h"

namespace dotresize {
namespace fs = std::filesystem;
namespace {

using nlohmann::json;

constexpr int kMostDepth = 16;  // steps are taken apart by recursion
constexpr std::array<const char*, 2> kSteps = {"normalizer", "pre_tokenizer"};

constexpr std::string_view kQwen2Words =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|)"
    R"(\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kQwen3_5Words =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+)"
    R"([\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

bool is_set(const json& settings, const char* key, bool if_absent) {
  const auto found = settings.find(key);
  return found != settings.end() && found->is_boolean() ? found->get<bool>() : if_absent;
}

json bytes_step(const json& settings, bool splits) {
  return {{"type", "ByteLevel"},
          {"add_prefix_space", is_set(settings, "add_prefix_space", false)},
          {"use_regex", splits}};
}

json split_step(const json& pattern, const char* behavior) {
  return {{"type", "Split"}, {"pattern", pattern}, {"behavior", behavior}, {"invert", false}};
}

json words_of_qwen(std::string_view words, const json& settings) {
  const json split = split_step({{"Regex", words}}, "Isolated");
  return {{"normalizer", {{"type", "NFC"}}},
          {"pre_tokenizer",
           {{"type", "Sequence"},
            {"pretokenizers", json::array({split, bytes_step(settings, /*splits=*/false)})}}}};
}

json steps_of_llama(const json& settings) {
  const char* const scheme = !is_set(settings, "add_prefix_space", true) ? "never"
                             : is_set(settings, "legacy", false)         ? "always"
                                                                         : "first";
  return {{"normalizer", nullptr},
          {"pre_tokenizer",
           {{"type", "Metaspace"},
            {"replacement", "▁"},
            {"prepend_scheme", scheme},
            {"split", false}}}};
}

json steps_of_gemma() {
  const json space = {{"String", " "}};
  return {{"normalizer", {{"type", "Replace"}, {"pattern", space}, {"content", "▁"}}},
          {"pre_tokenizer", split_step(space, "MergedWithPrevious")}};
}

/// Puts a step of a file into the form of built_steps.
void normalise(json& step) {
  if (!step.is_object()) return;
  step.erase("trim_offsets");  // no part of the tokens
  if (step.value("type", json()) == "ByteLevel" && !step.contains("use_regex")) {
    step["use_regex"] = true;
  }
  if (const auto steps = step.find("pretokenizers"); steps != step.end() && steps->is_array()) {
    for (json& each : *steps) normalise(each);
  }
}

/// Reads both steps of a tokenizer.json, of which nothing else is kept. Null: it is no such file.
json steps_of_file(const std::string& text) {
  const auto keep = [](int depth, json::parse_event_t event, const json& parsed) {
    if (depth > kMostDepth) return false;
    return depth != 1 || event != json::parse_event_t::key || parsed == kSteps[0] ||
           parsed == kSteps[1];
  };
  json found = json::parse(text, keep, /*allow_exceptions=*/false);
  if (!found.is_object()) return {};
  for (const char* step : kSteps) normalise(found[step]);
  return found;
}

}  // namespace

std::string tokenizer_text(const fs::path& dir, const Confinement& confinement) {
  try {
    return read_whole_file(dir / "tokenizer.json", kMaxCompanionBytes, confinement);
  } catch (const InputError&) {
    return "";
  }
}

json built_steps(std::string_view class_name, const json& settings) {
  if (class_name == "GPT2Tokenizer") {
    return {{"normalizer", nullptr}, {"pre_tokenizer", bytes_step(settings, /*splits=*/true)}};
  }
  if (class_name == "Qwen2Tokenizer") return words_of_qwen(kQwen2Words, settings);
  if (class_name == "Qwen3_5Tokenizer") return words_of_qwen(kQwen3_5Words, settings);
  if (class_name == "LlamaTokenizer") return steps_of_llama(settings);
  if (class_name == "GemmaTokenizer") return steps_of_gemma();
  return {};
}

std::string warning_about_tokenizer(const fs::path& dir, const ModelConfig& config) {
  if (!config.files.tokenizer) return "";
  const TokenizerForm& form = *config.files.tokenizer;
  const json built = built_steps(form.class_name, tokenizer_settings(dir));
  if (built.is_null()) return "";
  const json of_file = steps_of_file(tokenizer_text(dir));
  if (of_file.is_null() || of_file == built) return "";
  return "tokenizer.json splits text otherwise than " + form.class_name +
         ", which transformers 5 takes for this model: tokens here are those of the file, as in "
         "transformers 4";
}

}  // namespace dotresize
