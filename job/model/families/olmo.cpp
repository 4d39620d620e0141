#include <nlohmann/json.hpp>

#include "job/model/families/families.h"
#include "job/model/families/layer_settings.h"
#include "job/model/families/rotary_settings.h"

namespace dotresize {
namespace {

constexpr double kThetaOfOlmo3 = 5e5;

/// Sets what the layers of both families have in common: one norm over all heads of queries, one
/// over those of keys, and norms behind the sublayers only.
void read_layers(const ConfigFields& fields, ModelConfig& config) {
  read_attention_biases(fields, /*if_absent=*/false, config);
  for (LayerSpec& layer : config.layers) {
    layer.norms = kNormsBehindSublayers;
    layer.attention.head_norms = HeadNorms{.over_all_heads = true};
  }
}

void read_olmo2(const ConfigFields& fields, ModelConfig& config) {
  read_layers(fields, config);
  read_rotary(fields, {}, config);
}

void read_olmo3(const ConfigFields& fields, ModelConfig& config) {
  read_layers(fields, config);
  const std::vector<bool> sliding = sliding_layers(fields, /*period=*/4, config);
  read_window(fields, /*if_absent=*/4096, sliding, config);
  for (std::size_t layer = 0; layer < sliding.size(); ++layer) {
    config.layers[layer].attention.rotary = sliding[layer] ? 1 : 0;
  }
  read_rotaries_by_layer_type(
      fields, {.theta_if_absent = kThetaOfOlmo3, .sliding_theta_if_absent = kThetaOfOlmo3}, config);
  if (fields.has("rope_theta") && config.rotaries[0].theta != config.rotaries[1].theta) {
    fields.fail(
        "rope_theta",
        "is that of all layers in transformers 4, and in transformers 5 only that of layers "
        "without a window; give both in rope_parameters");
  }
}

void write_olmo3(nlohmann::json& config, const ModelConfig& output) {
  config["rope_parameters"] = parameters_by_layer_type(output);
  if (output.rotaries[0].theta == output.rotaries[1].theta) return;
  config.erase("rope_theta");  // the form of transformers 4 has one for all layers
  config.erase("rope_scaling");
}

}  // namespace

constinit const ModelFamily kOlmo2{
    .model_type = "olmo2",
    .architecture = "Olmo2ForCausalLM",
    .absent = {.max_position_embeddings = 2048, .rms_norm_eps = 1e-5},
    .read = read_olmo2,
    .tokenizer = kFileAsItStands};

constinit const ModelFamily kOlmo3{
    .model_type = "olmo3",
    .architecture = "Olmo3ForCausalLM",
    .absent = {.max_position_embeddings = 2048, .rms_norm_eps = 1e-5},
    .read = read_olmo3,
    .write = write_olmo3,
    .tokenizer = kFileAsItStands};

}  // namespace dotresize
