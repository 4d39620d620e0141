#include "job/model/families/families.h"
#include "job/model/families/layer_settings.h"
#include "job/model/families/rotary_settings.h"

namespace dotresize {
namespace {

void read_phi3(const ConfigFields& fields, ModelConfig& config) {
  refuse_biases(fields, {"attention_bias", "mlp_bias", "lm_head_bias"}, config);
  // The code beside the releases computes what transformers does.
  fields.note({"auto_map", "full_attn_mod", "interpolate_factor"});
  for (LayerSpec& layer : config.layers) layer.attention.fused = layer.mlp.fused = true;
  read_window(fields, /*if_absent=*/std::nullopt, config);
  read_rotary(fields,
              {.offers_partial = true,
               .is_default_or_longrope = true,
               .original_positions_if_absent = 4096},
              config);
}

std::string reason_against_stock_phi3(const ModelConfig& config) {
  if (config.rotaries.front().type != "longrope") return "";
  return "cannot have a longrope embedding: its configuration class wants a factor for every "
         "second of hidden_size / heads channels, and the heads do not shrink with hidden_size";
}

/// transformers 4 takes these three keys of a longrope and no more, and derives the others.
void write_phi3(nlohmann::json& config, const ModelConfig& output) {
  const RotaryConfig& rotary = output.rotaries.front();
  if (output.compressed || !is_derived_longrope(rotary, output.max_position_embeddings)) return;
  config["rope_scaling"] = {{"type", rotary.type},
                            {"short_factor", rotary.short_factor},
                            {"long_factor", rotary.long_factor}};
}

}  // namespace

constinit const ModelFamily kPhi3{.model_type = "phi3",
                                  .architecture = "Phi3ForCausalLM",
                                  .absent = {.max_position_embeddings = 4096, .rms_norm_eps = 1e-5},
                                  .read = read_phi3,
                                  .write = write_phi3,
                                  .refuses_stock = reason_against_stock_phi3,
                                  .tokenizer = kFileAsItStands};

}  // namespace dotresize
