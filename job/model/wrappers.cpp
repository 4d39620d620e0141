#include "job/model/wrappers.h"

#include <algorithm>
#include <array>

#include "base/text/human_text.h"

namespace dotresize {
namespace {

constexpr FamilyTokenizer kQwen3_5{.class_name = "Qwen3_5Tokenizer", .ignores_named = true};

constexpr std::array kWrappers = {
    WrapperSpec{"gemma3", "Gemma3ForConditionalGeneration", "gemma3_text", {"GemmaTokenizer"}},
    WrapperSpec{"llava", "LlavaForConditionalGeneration", "llama", kFileAsItStands},
    WrapperSpec{"mistral3", "Mistral3ForConditionalGeneration", "mistral", kFileAsItStands},
    WrapperSpec{"qwen3_5", "Qwen3_5ForConditionalGeneration", "qwen3_5_text", kQwen3_5},
    WrapperSpec{"qwen3_5_moe", "Qwen3_5MoeForConditionalGeneration", "qwen3_5_moe_text", kQwen3_5}};

/// Names of published files, then those of the modules in transformers. It reads either.
constexpr std::array kWrapperNames = {
    WrapperNames{"language_model.model.", "language_model.lm_head."},
    WrapperNames{"model.language_model.", "lm_head."}};

constexpr std::string_view kTextBase = "model.";
constexpr std::string_view kTextHead = "lm_head.";

}  // namespace

const WrapperSpec* find_wrapper(std::string_view model_type) {
  const auto found = std::ranges::find(kWrappers, model_type, &WrapperSpec::model_type);
  return found == kWrappers.end() ? nullptr : &*found;
}

std::string accepted_wrappers() {
  std::vector<std::string> types;
  types.reserve(kWrappers.size());
  for (const WrapperSpec& wrapper : kWrappers) types.emplace_back(wrapper.model_type);
  return listed(types);
}

const WrapperNames* find_wrapper_names(std::span<const std::string> stored) {
  const auto found = std::ranges::find_if(kWrapperNames, [&](const WrapperNames& names) {
    return std::ranges::any_of(
        stored, [&](const std::string& name) { return name.starts_with(names.base); });
  });
  return found == kWrapperNames.end() ? nullptr : &*found;
}

std::optional<std::string> text_name(const WrapperNames& names, std::string_view stored) {
  for (const auto& [prefix, plain] : {std::pair(names.base, kTextBase), {names.head, kTextHead}}) {
    if (stored.starts_with(prefix)) {
      return std::string(plain) + std::string(stored.substr(prefix.size()));
    }
  }
  return std::nullopt;
}

bool is_of_text(std::string_view stored) {
  return std::ranges::any_of(kWrapperNames, [&](const WrapperNames& names) {
    return text_name(names, stored).has_value();
  });
}

std::string stored_name(const ModelConfig& config, const std::string& name) {
  if (!config.files.wrapper) return name;
  const Wrapper& wrapper = *config.files.wrapper;
  if (name.starts_with(kTextHead)) return wrapper.head_names + name.substr(kTextHead.size());
  return wrapper.base_names + name.substr(kTextBase.size());
}

}  // namespace dotresize
