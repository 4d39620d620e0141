#include <nlohmann/json.hpp>

#include "job/model/families/families.h"
#include "job/model/families/layer_settings.h"
#include "job/model/families/rotary_settings.h"

namespace dotresize {
namespace {

constexpr MixtureKeys kGptOssKeys{.experts = "num_local_experts",
                                  .intermediate_size = "intermediate_size"};
constexpr double kLargest = 1e6;

void read_experts(const ConfigFields& fields, ModelConfig& config) {
  for (const char* key : {"swiglu_limit", "swiglu_alpha"}) fields.refuse_null(key);
  const LimitedGlu form{.limit = fields.positive("swiglu_limit", kLargest).value_or(7.0),
                        .sharpness = fields.positive("swiglu_alpha", kLargest).value_or(1.702)};
  const MixtureNames names{.block = "mlp",
                           .gate = "gate_up_proj",
                           .up = {},
                           .down = "down_proj",
                           .router = "router",
                           .stacked = true};
  const std::vector<bool> all(config.layers.size(), true);
  // The softmax over the chosen experts is that over all, divided by its sum over them.
  read_mixtures(fields, kGptOssKeys, {.normed_weights = true, .names = names}, all, config);
  for (LayerSpec& layer : config.layers) {
    layer.mlp.bias = layer.mlp.fused = layer.mlp.interleaved = true;
    layer.mlp.limited = form;
  }
}

void read_gpt_oss(const ConfigFields& fields, ModelConfig& config) {
  fields.note({"experts_per_token", "initial_context_length"});  // published, and of no effect
  read_attention_biases(fields, /*if_absent=*/true, config);
  for (LayerSpec& layer : config.layers) layer.attention.sinks = true;
  read_window(fields, /*if_absent=*/128, sliding_layers(fields, /*period=*/2, config), config);
  if (!fields.has("rope_parameters") && fields.raw("rope_scaling").empty()) {
    fields.fail("rope_scaling",
                "is missing: transformers would take a yarn of its own; give the settings that the "
                "model was trained with, as published configs do");
  }
  read_rotary(fields, {.theta_if_absent = 150000.0}, config);
  read_experts(fields, config);
}

void write_gpt_oss(nlohmann::json& config, const ModelConfig& output) {
  write_mixtures(kGptOssKeys, config, output);
}

}  // namespace

constinit const ModelFamily kGptOss{.model_type = "gpt_oss",
                                    .architecture = "GptOssForCausalLM",
                                    .absent = {.kv_heads = 8,
                                               .head_dim = 64,
                                               .max_position_embeddings = 131072,
                                               .rms_norm_eps = 1e-5},
                                    .read = read_gpt_oss,
                                    .write = write_gpt_oss};

}  // namespace dotresize
