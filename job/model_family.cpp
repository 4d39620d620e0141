#include "job/model_family.h"

#include <algorithm>
#include <array>
#include <string_view>

namespace dotresize {
namespace {

const std::array kFamilies = {
    ModelFamily{.model_type = "llama",
                .architecture = "LlamaForCausalLM",
                .offers_biases = true,
                .offers_sliding_window = false,
                .heads_divide_hidden_size = true,
                .sliding_window_if_absent = std::nullopt,
                .kv_heads_if_absent = std::nullopt,
                .max_position_embeddings_if_absent = 2048},
    ModelFamily{.model_type = "mistral",
                .architecture = "MistralForCausalLM",
                .offers_biases = false,
                .offers_sliding_window = true,
                .heads_divide_hidden_size = false,
                .sliding_window_if_absent = 4096,
                .kv_heads_if_absent = 8,
                .max_position_embeddings_if_absent = 131072},
};

constexpr std::string_view kLayerNorm =
    "it uses LayerNorm, whose mean and bias cannot be folded into the neighbouring matrices";
constexpr std::string_view kPostNorm =
    "it normalises the output of a sublayer before the residual addition (post-norms), and such a "
    "norm cannot be folded";
constexpr std::string_view kParallel =
    "its attention and MLP read the same residual stream side by side (parallel blocks), which "
    "the junctions do not describe";
constexpr std::string_view kNotYet = "it is not supported yet";

struct Refusal {
  std::string_view model_type;
  std::string_view reason;
};

constexpr Refusal kRefusals[] = {
    {"gpt2", kLayerNorm},       {"opt", kLayerNorm},        {"bloom", kLayerNorm},
    {"mpt", kLayerNorm},        {"starcoder2", kLayerNorm}, {"gpt_bigcode", kLayerNorm},
    {"stablelm", kLayerNorm},   {"gemma2", kPostNorm},      {"gemma3", kPostNorm},
    {"gemma3_text", kPostNorm}, {"olmo2", kPostNorm},       {"olmo3", kPostNorm},
    {"gptj", kParallel},        {"gpt_neox", kParallel},    {"phi", kParallel},
    {"falcon", kParallel},      {"cohere", kParallel},      {"cohere2", kParallel},
    {"qwen2", kNotYet},         {"qwen3", kNotYet},         {"phi3", kNotYet},
    {"gemma", kNotYet},         {"mixtral", kNotYet},       {"qwen2_moe", kNotYet},
    {"qwen3_moe", kNotYet},     {"ministral", kNotYet},     {"llama4", kNotYet},
};

}  // namespace

const ModelFamily* find_family(const std::string& model_type) {
  const auto* const found =
      std::find_if(kFamilies.begin(), kFamilies.end(),
                   [&](const ModelFamily& family) { return family.model_type == model_type; });
  return found == kFamilies.end() ? nullptr : found;
}

std::string reason_for_refusal(const std::string& model_type) {
  const auto* const found =
      std::find_if(std::begin(kRefusals), std::end(kRefusals),
                   [&](const Refusal& refusal) { return refusal.model_type == model_type; });
  const std::string_view reason =
      found == std::end(kRefusals) ? "this architecture is not known" : found->reason;
  return "'" + model_type + "' is refused: " + std::string(reason) +
         "; accepted are llama and mistral";
}

}  // namespace dotresize
