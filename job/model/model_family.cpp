#include "job/model/model_family.h"

#include <algorithm>
#include <array>
#include <string_view>

namespace dotresize {
namespace {

using AttentionBias = ModelFamily::AttentionBias;
using Window = ModelFamily::Window;

const std::array kFamilies = {
    ModelFamily{.model_type = "llama",
                .architecture = "LlamaForCausalLM",
                .attention_bias = AttentionBias::kAsConfigured,
                .offers_mlp_bias = true,
                .heads_divide_hidden_size = true,
                .offers_stock_output = true,
                .max_position_embeddings_if_absent = 2048},
    ModelFamily{.model_type = "mistral",
                .architecture = "MistralForCausalLM",
                .offers_stock_output = true,
                .window = Window::kEveryLayer,
                .sliding_window_if_absent = 4096,
                .layer_types_name_window = true,
                .kv_heads_if_absent = 8,
                .max_position_embeddings_if_absent = 131072},
    ModelFamily{.model_type = "phi3",
                .architecture = "Phi3ForCausalLM",
                .fused_in_proj = true,
                .offers_partial_rotary = true,
                .rotary_is_default_or_longrope = true,
                .offers_stock_output = true,
                .window = Window::kEveryLayer,
                .max_position_embeddings_if_absent = 4096,
                .original_max_position_embeddings_if_absent = 4096,
                .rms_norm_eps_if_absent = 1e-5},
    ModelFamily{.model_type = "qwen2",
                .architecture = "Qwen2ForCausalLM",
                .attention_bias = AttentionBias::kQkv,
                .offers_stock_output = true,
                .window = Window::kByLayerType,
                .sliding_window_if_absent = 4096,
                .kv_heads_if_absent = 32,
                .max_position_embeddings_if_absent = 32768},
    ModelFamily{.model_type = "qwen3",
                .architecture = "Qwen3ForCausalLM",
                .attention_bias = AttentionBias::kAsConfigured,
                .head_norms = true,
                .offers_stock_output = true,
                .window = Window::kByLayerType,
                .sliding_window_if_absent = 4096,
                .kv_heads_if_absent = 32,
                .head_dim_if_absent = 128,
                .max_position_embeddings_if_absent = 32768},
    ModelFamily{.model_type = "mixtral",
                .architecture = "MixtralForCausalLM",
                .offers_stock_output = true,
                .window = Window::kEveryLayer,
                .kv_heads_if_absent = 8,
                .max_position_embeddings_if_absent = 131072,
                .rms_norm_eps_if_absent = 1e-5,
                .rope_theta_if_absent = 1e6,
                .mixture = {{.experts_key = "num_local_experts",
                             .intermediate_size_key = "intermediate_size",
                             .names = {"block_sparse_moe", "w1", "w3", "w2"}}}},
    ModelFamily{.model_type = "qwen3_moe",
                .architecture = "Qwen3MoeForCausalLM",
                .attention_bias = AttentionBias::kAsConfigured,
                .head_norms = true,
                .offers_stock_output = true,
                .window = Window::kIfUsed,
                .sliding_window_if_absent = 4096,
                .kv_heads_if_absent = 4,
                .max_position_embeddings_if_absent = 32768,
                .mixture = {{.experts_key = "num_experts",
                             .intermediate_size_key = "moe_intermediate_size",
                             .offers_dense_layers = true,
                             .offers_plain_weights = true,
                             .names = {"mlp", "gate_proj", "up_proj", "down_proj"}}}},
};

constexpr std::string_view kLayerNorm =
    "it uses LayerNorm, whose mean and bias cannot be folded into the neighbouring matrices";
constexpr std::string_view kPostNorm =
    "it normalises the output of a sublayer before the residual addition (post-norms), and such a "
    "norm cannot be folded";
constexpr std::string_view kParallel =
    "its attention and MLP read the same residual stream side by side (parallel blocks), which "
    "the junctions do not describe";
constexpr std::string_view kSharedExpert =
    "beside its mixture of experts every token goes through a shared expert with a gate of its "
    "own, which is not supported";
constexpr std::string_view kNotYet = "it is not supported yet";

struct Refusal {
  std::string_view model_type;
  std::string_view reason;
};

constexpr Refusal kRefusals[] = {
    {"gpt2", kLayerNorm},         {"opt", kLayerNorm},        {"bloom", kLayerNorm},
    {"mpt", kLayerNorm},          {"starcoder2", kLayerNorm}, {"gpt_bigcode", kLayerNorm},
    {"stablelm", kLayerNorm},     {"gemma2", kPostNorm},      {"gemma3", kPostNorm},
    {"gemma3_text", kPostNorm},   {"olmo2", kPostNorm},       {"olmo3", kPostNorm},
    {"gptj", kParallel},          {"gpt_neox", kParallel},    {"phi", kParallel},
    {"falcon", kParallel},        {"cohere", kParallel},      {"cohere2", kParallel},
    {"gemma", kNotYet},           {"ministral", kNotYet},     {"llama4", kNotYet},
    {"qwen2_moe", kSharedExpert},
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
  std::string accepted;
  for (const ModelFamily& family : kFamilies) {
    accepted += (accepted.empty() ? "" : ", ") + family.model_type;
  }
  return "'" + model_type + "' is refused: " + std::string(reason) + "; accepted are " + accepted;
}

}  // namespace dotresize
