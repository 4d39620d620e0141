#include "worker/model/layout.h"

namespace dotresize {
namespace {

LinearLayout linear_layout(const std::string& name, int64_t rows, int64_t columns, bool has_bias) {
  LinearLayout layout;
  layout.weight = {name + ".weight", {rows, columns}};
  if (has_bias) layout.bias = {name + ".bias", {rows}};
  return layout;
}

SublayerLayout attention_layout(const ModelConfig& config, const std::string& layer, int64_t k_in,
                                int64_t k_out) {
  const int64_t query_rows = config.num_heads * config.head_dim;
  const int64_t key_rows = config.num_kv_heads * config.head_dim;
  const bool bias = config.attention_bias;
  const std::string attention = layer + ".self_attn.";
  return {
      .norm = {layer + ".input_layernorm.weight", {config.hidden_size}},
      .readers = {linear_layout(attention + "q_proj", query_rows, k_in, bias),
                  linear_layout(attention + "k_proj", key_rows, k_in, bias),
                  linear_layout(attention + "v_proj", key_rows, k_in, bias)},
      .writer = linear_layout(attention + "o_proj", k_out, query_rows, config.output_bias),
      .shortcut = {layer + ".attention_shortcut.weight", {k_out, k_in}},
  };
}

SublayerLayout mlp_layout(const ModelConfig& config, const std::string& layer, int64_t k_in,
                          int64_t k_out) {
  const int64_t rows = config.intermediate_size;
  const bool bias = config.mlp_bias;
  const std::string mlp = layer + ".mlp.";
  return {
      .norm = {layer + ".post_attention_layernorm.weight", {config.hidden_size}},
      .readers = {linear_layout(mlp + "gate_proj", rows, k_in, bias),
                  linear_layout(mlp + "up_proj", rows, k_in, bias)},
      .writer = linear_layout(mlp + "down_proj", k_out, rows, bias),
      .shortcut = {layer + ".mlp_shortcut.weight", {k_out, k_in}},
  };
}

}  // namespace

bool is_attention(int64_t sublayer) { return sublayer % 2 == 0; }

std::string sublayer_name(int64_t sublayer) {
  return "layers." + std::to_string(sublayer / 2) +
         (is_attention(sublayer) ? ".attention" : ".mlp");
}

std::string junction_name(int64_t junction) {
  return junction == 0 ? "embed" : sublayer_name(junction - 1);
}

SublayerLayout sublayer_layout(const ModelConfig& config, int64_t sublayer, int64_t k_in,
                               int64_t k_out) {
  const std::string layer = "model.layers." + std::to_string(sublayer / 2);
  return is_attention(sublayer) ? attention_layout(config, layer, k_in, k_out)
                                : mlp_layout(config, layer, k_in, k_out);
}

}  // namespace dotresize
