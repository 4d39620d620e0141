#include "job/model/tokenizer_class.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <system_error>

#include "base/errors.h"
#include "base/files/input_file.h"
#include "base/text/checked_json.h"
#include "job/model/families/families.h"
#include "job/model/read_model_config.h"
#include "job/model/tokenizer_steps.h"
#include "job/model/wrappers.h"

namespace dotresize {
namespace fs = std::filesystem;
namespace {

using nlohmann::json;

constexpr char kClassKey[] = "tokenizer_class";
constexpr std::array<std::string_view, 3> kReadAsItStands = {
    kTokenizersBackend, "PreTrainedTokenizer", "PythonBackend"};

json settings_of(const fs::path& file, const Confinement& confinement) {
  std::error_code error;
  if (!fs::exists(file, error)) return json::object();
  try {
    const std::string text = read_whole_file(file, kMaxConfigBytes, confinement);
    return parse_json_object(with_quoted_non_finite(text), file.string());
  } catch (const InputError&) {
    return json::object();
  }
}

std::string class_in(const json& settings) {
  const auto found = settings.find(kClassKey);
  return found != settings.end() && found->is_string() ? found->get<std::string>() : "";
}

FamilyTokenizer tokenizer_of(const ModelConfig& config) {
  if (config.files.wrapper) return find_wrapper(config.files.wrapper->model_type)->tokenizer;
  return config.compressed ? FamilyTokenizer{} : find_family(config.family)->tokenizer;
}

/// A name of the class for transformers 4 and 5.
std::string_view name_in_both(std::string_view class_name) {
  return class_name == kTokenizersBackend ? kTokenizersBackendInBoth : class_name;
}

}  // namespace

std::string tokenizer_class(const FamilyTokenizer& family, std::string_view named,
                            bool byte_level) {
  if (named.ends_with("Fast")) named.remove_suffix(4);
  if (family.ignores_named || named.empty()) {
    return std::string(family.class_name.empty() ? kTokenizersBackend : family.class_name);
  }
  const bool as_it_stands =
      std::ranges::count(kReadAsItStands, named) > 0 || (named == "LlamaTokenizer" && byte_level);
  return std::string(as_it_stands ? kTokenizersBackend : named);
}

json tokenizer_settings(const fs::path& dir, const Confinement& confinement) {
  return settings_of(dir / "tokenizer_config.json", confinement);
}

std::optional<TokenizerForm> read_tokenizer_form(const fs::path& dir, const ModelConfig& config,
                                                 const Confinement& confinement) {
  std::error_code error;
  if (!fs::is_regular_file(dir / "tokenizer.json", error)) return std::nullopt;
  const json settings = tokenizer_settings(dir, confinement);
  if (settings.contains("auto_map")) return std::nullopt;
  std::string named = class_in(settings);
  if (named.empty()) named = class_in(settings_of(dir / "config.json", confinement));
  TokenizerForm form;
  if (named.starts_with("LlamaTokenizer")) {  // the only class for which this makes a difference
    const std::string text = tokenizer_text(dir, confinement);
    form.byte_level = text.find("\"ByteLevel\"") != std::string::npos;
  }
  form.class_name = tokenizer_class(tokenizer_of(config), named, form.byte_level);
  return form;
}

bool keeps_tokenizer_class(const ModelConfig& source, std::string_view family) {
  if (!source.files.tokenizer) return true;
  const TokenizerForm& form = *source.files.tokenizer;
  return tokenizer_class(find_family(family)->tokenizer, name_in_both(form.class_name),
                         form.byte_level) == form.class_name;
}

void name_tokenizer_class(json& tokenizer_config, const ModelConfig& output) {
  if (!output.files.tokenizer || output.files.wrapper) return;
  const TokenizerForm& form = *output.files.tokenizer;
  const FamilyTokenizer family = tokenizer_of(output);
  const std::string given = class_in(tokenizer_config);
  // transformers 4 has neither that class nor one for `dotresize`.
  const bool in_both = given.empty() ? !output.compressed : given != kTokenizersBackend;
  if (in_both && tokenizer_class(family, given, form.byte_level) == form.class_name) return;
  const std::string_view name = name_in_both(form.class_name);
  if (tokenizer_class(family, name, form.byte_level) != form.class_name) return;
  tokenizer_config[kClassKey] = name;
  // Else transformers 4 gives models an input that they do not take.
  if (name == kTokenizersBackendInBoth && !tokenizer_config.contains("model_input_names")) {
    tokenizer_config["model_input_names"] = {"input_ids", "attention_mask"};
  }
}

}  // namespace dotresize
