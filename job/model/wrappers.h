#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "job/model/model_config.h"
#include "job/model/tokenizer_class.h"

namespace dotresize {

/// Model that holds one of text beside parts for images. Its text part is a model of a supported
/// family, described by `text_config` of config.json, and computes the same as that model alone as
/// long as there is only text.
struct WrapperSpec {
  std::string_view model_type;
  std::string_view architecture;  ///< the only accepted entry of `architectures`
  std::string_view text_type;     ///< family of a text part without a model_type
  FamilyTokenizer tokenizer;
};

/// Returns null for an unsupported wrapper.
const WrapperSpec* find_wrapper(std::string_view model_type);

/// "gemma3, llava, mistral3, qwen3_5".
std::string accepted_wrappers();

/// Beginnings of the names of the text part's tensors in a wrapper's files.
struct WrapperNames {
  std::string_view base;  ///< in place of "model."
  std::string_view head;  ///< in place of "lm_head."
};

/// Returns the layout of these names of tensors; null if none of them is the text part's.
const WrapperNames* find_wrapper_names(std::span<const std::string> stored);

/// Returns the name that a tensor of this layout has in a model of text; absent if it is of another
/// part.
std::optional<std::string> text_name(const WrapperNames& names, std::string_view stored);

/// Returns true if the tensor is the text part's in any layout.
bool is_of_text(std::string_view stored);

/// Returns the name in the model's files: another one in a wrapper.
std::string stored_name(const ModelConfig& config, const std::string& name);

}  // namespace dotresize
