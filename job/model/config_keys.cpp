#include "job/model/config_keys.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string_view>

#include "base/text/human_text.h"
#include "base/text/printable.h"

namespace dotresize {
namespace {

using nlohmann::json;

constexpr std::size_t kNamedKeys = 8;  // in one sentence

/// Keys without effect on a model's predictions, which transformers or its users expect in a
/// config.
constexpr std::array<std::string_view, 24> kIdleKept = {
    "attention_dropout",    "attn_pdrop",           "embd_pdrop",
    "resid_pdrop",          "hidden_dropout",       "residual_dropout",
    "initializer_range",    "initializer_factor",   "use_cache",
    "bos_token_id",         "eos_token_id",         "pad_token_id",
    "unk_token_id",         "sep_token_id",         "decoder_start_token_id",
    "pretraining_tp",       "output_router_logits", "router_aux_loss_coef",
    "router_jitter_noise",  "is_llama_config",      "rope_interleaved",
    "transformers_version", "max_sequence_length",  "tokenizer_padding_side"};

/// Keys without effect on a model's predictions, which an output does not need.
constexpr std::array<std::string_view, 58> kIdleDropped = {"_name_or_path",
                                                           "_attn_implementation",
                                                           "attn_implementation",
                                                           "_attn_implementation_autoset",
                                                           "_commit_hash",
                                                           "_flash_attn_2_enabled",
                                                           "quantization_config",
                                                           "compression_config",
                                                           "gradient_checkpointing",
                                                           "is_causal",
                                                           "is_composition",
                                                           "use_bidirectional_attention",
                                                           "add_cross_attention",
                                                           "bad_words_ids",
                                                           "begin_suppress_tokens",
                                                           "chunk_size_feed_forward",
                                                           "cross_attention_hidden_size",
                                                           "diversity_penalty",
                                                           "do_sample",
                                                           "early_stopping",
                                                           "encoder_no_repeat_ngram_size",
                                                           "exponential_decay_length_penalty",
                                                           "finetuning_task",
                                                           "forced_bos_token_id",
                                                           "forced_eos_token_id",
                                                           "id2label",
                                                           "is_decoder",
                                                           "is_encoder_decoder",
                                                           "label2id",
                                                           "length_penalty",
                                                           "max_length",
                                                           "min_length",
                                                           "no_repeat_ngram_size",
                                                           "num_beam_groups",
                                                           "num_beams",
                                                           "num_return_sequences",
                                                           "output_attentions",
                                                           "output_hidden_states",
                                                           "output_scores",
                                                           "prefix",
                                                           "problem_type",
                                                           "pruned_heads",
                                                           "remove_invalid_values",
                                                           "repetition_penalty",
                                                           "return_dict",
                                                           "return_dict_in_generate",
                                                           "suppress_tokens",
                                                           "task_specific_params",
                                                           "temperature",
                                                           "tf_legacy_loss",
                                                           "tie_encoder_decoder",
                                                           "tokenizer_class",
                                                           "torchscript",
                                                           "transformers.js_config",
                                                           "typical_p",
                                                           "unsloth_fixed",
                                                           "unsloth_version",
                                                           "use_mrope"};

/// Keys that say where the code of a compressed model is and what it computes. An output gets its
/// own ones.
constexpr std::array<std::string_view, 3> kCustomKeys = {"auto_map", "source_model_type",
                                                         "norm_weights"};

/// Keys by which transformers loads code, files in place of the model's own, or quantised weights.
constexpr std::array<std::string_view, 9> kLoadingKeys = {"auto_map",
                                                          "attn_implementation",
                                                          "_attn_implementation",
                                                          "_attn_implementation_autoset",
                                                          "_commit_hash",
                                                          "_name_or_path",
                                                          "transformers_weights",
                                                          "quantization_config",
                                                          "compression_config"};

constexpr std::array<std::string_view, 39> kTokenizerKeys = {"add_bos_token",
                                                             "add_eos_token",
                                                             "add_prefix_space",
                                                             "added_tokens_decoder",
                                                             "additional_special_tokens",
                                                             "backend",
                                                             "bos_token",
                                                             "byte_fallback",
                                                             "chat_template",
                                                             "clean_up_tokenization_spaces",
                                                             "cls_token",
                                                             "do_lower_case",
                                                             "eos_token",
                                                             "errors",
                                                             "extra_special_tokens",
                                                             "fix_mistral_regex",
                                                             "legacy",
                                                             "mask_token",
                                                             "max_length",
                                                             "model_input_names",
                                                             "model_max_length",
                                                             "model_specific_special_tokens",
                                                             "pad_to_multiple_of",
                                                             "pad_token",
                                                             "pad_token_type_id",
                                                             "padding_side",
                                                             "response_schema",
                                                             "sep_token",
                                                             "sp_model_kwargs",
                                                             "spaces_between_special_tokens",
                                                             "split_special_tokens",
                                                             "stride",
                                                             "tokenizer_class",
                                                             "truncation_side",
                                                             "truncation_strategy",
                                                             "unk_token",
                                                             "use_default_system_prompt",
                                                             "use_fast",
                                                             "vocab_size"};

template <class Keys>
bool contains(const Keys& keys, std::string_view key) {
  return std::ranges::count(keys, key) > 0;
}

/// True for numbers, truth values, null and lists of them: they cannot name anything to be loaded.
bool is_plain(const json& value) {
  if (value.is_array()) return std::ranges::all_of(value, is_plain);
  return value.is_number() || value.is_boolean() || value.is_null();
}

}  // namespace

std::vector<std::string> warnings_about_keys(const ConfigFields& fields,
                                             const std::string& family) {
  std::vector<std::string> unknown;
  for (const std::string& key : fields.unread()) {
    const std::string outer = key.substr(0, key.find('.'));
    if (contains(kIdleKept, outer) || contains(kIdleDropped, outer)) continue;
    if (contains(kIdleDropped, key)) continue;  // a name with a dot
    unknown.push_back(printable(key, 60));
  }
  if (unknown.empty()) return {};
  const std::size_t more = unknown.size() > kNamedKeys ? unknown.size() - kNamedKeys : 0;
  unknown.resize(unknown.size() - more);
  if (more > 0) unknown.push_back(std::to_string(more) + " more");
  return {"config.json: " + listed(unknown) + ": not known as " +
          (unknown.size() == 1 ? "a setting" : "settings") + " of a " + family + ", and ignored"};
}

std::set<std::string> known_settings(const ConfigFields& fields) {
  std::set<std::string> settings = fields.read_keys();
  std::erase_if(settings, [](const std::string& key) {
    return contains(kIdleDropped, key) || contains(kCustomKeys, key);
  });
  return settings;
}

json kept_config(const json& source, const std::set<std::string>& settings) {
  json kept = json::object();
  for (const auto& [key, value] : source.items()) {
    const bool idle = contains(kIdleKept, key);
    if (settings.contains(key) || (idle && (is_plain(value) || value.is_string())))
      kept[key] = value;
  }
  return kept;
}

json kept_generation_config(const json& source) {
  json kept = json::object();
  for (const auto& [key, value] : source.items()) {
    if (is_plain(value) || key == "transformers_version") kept[key] = value;
  }
  return kept;
}

json kept_wrapper_config(const json& source) {
  json kept = json::object();
  for (const auto& [key, value] : source.items()) {
    if (contains(kLoadingKeys, key) || value == "NaN" || value == "Infinity" ||
        value == "-Infinity") {  // JSON has no such numbers
      continue;
    }
    kept[key] = value.is_object() ? kept_wrapper_config(value) : value;
  }
  return kept;
}

json kept_tokenizer_config(const json& source, bool processor) {
  json kept = json::object();
  for (const auto& [key, value] : source.items()) {
    // Names of further special tokens, such as `image_token`, are as many as there are models.
    const bool token = key.ends_with("_token") && (value.is_string() || value.is_object());
    const bool of_images = processor && key == "processor_class" && value.is_string();
    if (contains(kTokenizerKeys, key) || token || of_images || is_plain(value)) kept[key] = value;
  }
  return kept;
}

}  // namespace dotresize
