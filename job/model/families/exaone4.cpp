#include "job/model/families/families.h"
#include "job/model/families/layer_settings.h"
#include "job/model/families/rotary_settings.h"

namespace dotresize {
namespace {

/// Layers without a window have no rotary embedding either, unless no layer has a window.
void read_exaone4_windows(const ConfigFields& fields, ModelConfig& config) {
  constexpr const char* kPattern = "sliding_window_pattern";
  fields.note({kPattern, "layer_types"});
  read_window(fields, /*if_absent=*/4096, config);
  if (!config.layers.front().attention.sliding_window) {
    if (fields.has("layer_types")) read_window(fields, {}, sliding_layers(fields, config), config);
    return;
  }
  // Published patterns are letters, which transformers reads no more; layer_types is beside them.
  const int64_t period =
      fields.has("layer_types") ? 1 : fields.integer(kPattern, 1, kMaxLayers).value_or(4);
  const std::vector<bool> sliding = sliding_layers(fields, period, config);
  for (std::size_t layer = 0; layer < sliding.size(); ++layer) {
    if (sliding[layer]) continue;
    config.layers[layer].attention.sliding_window.reset();
    config.layers[layer].attention.rotary.reset();
  }
}

void read_exaone4(const ConfigFields& fields, ModelConfig& config) {
  refuse_biases(fields, {"attention_bias", "mlp_bias"}, config);
  for (LayerSpec& layer : config.layers) {
    layer.norms = kNormsBehindSublayers;
    layer.attention.head_norms = HeadNorms();
  }
  read_exaone4_windows(fields, config);
  read_rotary(fields, {}, config);
}

}  // namespace

constinit const ModelFamily kExaone4{
    .model_type = "exaone4",
    .architecture = "Exaone4ForCausalLM",
    .absent = {.kv_heads = 32, .max_position_embeddings = 2048, .rms_norm_eps = 1e-5},
    .read = read_exaone4};

}  // namespace dotresize
