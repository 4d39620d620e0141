#include "job/model/model_config.h"

namespace dotresize {

int64_t layer_of(int64_t sublayer) { return sublayer / 2; }

bool is_attention(int64_t sublayer) { return sublayer % 2 == 0; }

std::string sublayer_name(int64_t sublayer) {
  return "layers." + std::to_string(layer_of(sublayer)) +
         (is_attention(sublayer) ? ".attention" : ".mlp");
}

std::string junction_name(int64_t junction) {
  return junction == 0 ? "embed" : sublayer_name(junction - 1);
}

bool in_one_group(const std::vector<int64_t>& groups, int64_t sublayer) {
  const auto in = static_cast<std::size_t>(sublayer);
  return !groups.empty() && groups.at(in) == groups.at(in + 1);
}

bool ModelConfig::is_mixture(int64_t sublayer) const {
  return mixture && !is_attention(sublayer) &&
         mixture->layers.at(static_cast<std::size_t>(layer_of(sublayer)));
}

int64_t mlp_width(const ModelConfig& config, int64_t sublayer) {
  if (is_attention(sublayer)) return 0;
  if (!config.form.intermediate_sizes.empty()) {
    return config.form.intermediate_sizes.at(static_cast<std::size_t>(layer_of(sublayer)));
  }
  return config.is_mixture(sublayer) ? config.mixture->intermediate_size : config.intermediate_size;
}

int64_t value_head_dim(const ModelConfig& config, int64_t sublayer) {
  if (!is_attention(sublayer)) return 0;
  if (config.form.value_head_dims.empty()) return config.attention.head_dim;
  return config.form.value_head_dims.at(static_cast<std::size_t>(layer_of(sublayer)));
}

int64_t inner_width(const ModelConfig& config, int64_t sublayer) {
  return is_attention(sublayer) ? value_head_dim(config, sublayer) : mlp_width(config, sublayer);
}

bool is_skipped(const ModelConfig& config, int64_t sublayer) {
  return inner_width(config, sublayer) == 0;
}

bool has_output_bias(const ModelConfig& config, int64_t sublayer) {
  return is_attention(sublayer) ? config.attention.output_bias : config.mlp_bias;
}

ShortcutForm ModelConfig::shortcut(int64_t sublayer) const {
  if (!compressed || in_one_group(form.junction_groups, sublayer)) return kIdentityShortcut;
  return form.shortcuts.empty() ? ShortcutForm{}
                                : form.shortcuts.at(static_cast<std::size_t>(sublayer));
}

}  // namespace dotresize
