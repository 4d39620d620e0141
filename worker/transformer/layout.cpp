#include "worker/transformer/layout.h"

#include <utility>

#include "job/model/sublayers.h"

namespace dotresize {
namespace {

LinearLayout linear_layout(const std::string& name, int64_t rows, int64_t columns, bool has_bias) {
  LinearLayout layout;
  layout.weight = {name + ".weight", {rows, columns}};
  if (has_bias) layout.bias = {name + ".bias", {rows}};
  return layout;
}

/// in_proj of these names and rows; `fused`: one under that name, their rows one below another.
std::vector<LinearLayout> in_proj_layouts(const ModelConfig& config, const std::string& prefix,
                                          const std::vector<std::pair<std::string, int64_t>>& parts,
                                          const std::string& fused, int64_t k_in, bool has_bias) {
  int64_t all_rows = 0;
  std::vector<LinearLayout> layouts;
  for (const auto& [name, rows] : parts) {
    all_rows += rows;
    layouts.push_back(linear_layout(prefix + name, rows, k_in, has_bias));
  }
  if (config.fused_in_proj) layouts = {linear_layout(prefix + fused, all_rows, k_in, has_bias)};
  return layouts;
}

std::vector<StoredTensor> head_norms(const ModelConfig& config, const std::string& attention) {
  if (!config.head_norms) return {};
  return {{attention + "q_norm.weight", {config.head_dim}},
          {attention + "k_norm.weight", {config.head_dim}}};
}

SublayerLayout attention_layout(const ModelConfig& config, const std::string& layer, int64_t k_in,
                                int64_t k_out) {
  const int64_t query_rows = config.num_heads * config.head_dim;
  const int64_t key_rows = config.num_kv_heads * config.head_dim;
  const std::string attention = layer + ".self_attn.";
  return {
      .norm = {layer + ".input_layernorm.weight", {config.hidden_size}},
      .in_proj = in_proj_layouts(
          config, attention, {{"q_proj", query_rows}, {"k_proj", key_rows}, {"v_proj", key_rows}},
          "qkv_proj", k_in, config.attention_bias),
      .head_norms = head_norms(config, attention),
      .out_proj = {linear_layout(attention + "o_proj", k_out, query_rows, config.output_bias)},
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
      .in_proj = in_proj_layouts(config, mlp, {{"gate_proj", rows}, {"up_proj", rows}},
                                 "gate_up_proj", k_in, bias),
      .head_norms = {},
      .out_proj = {linear_layout(mlp + "down_proj", k_out, rows, bias)},
      .shortcut = {layer + ".mlp_shortcut.weight", {k_out, k_in}},
  };
}

SublayerLayout mixture_layout(const MixtureConfig& mixture, const std::string& layer, int64_t d,
                              int64_t k_in, int64_t k_out) {
  const MixtureNames& names = mixture.names;
  const int64_t rows = mixture.intermediate_size;
  const std::string block = layer + "." + names.block + ".";
  SublayerLayout layout;
  layout.norm = {layer + ".post_attention_layernorm.weight", {d}};
  layout.in_proj = {linear_layout(block + "gate", mixture.experts, k_in, /*has_bias=*/false)};
  for (int64_t e = 0; e < mixture.experts; ++e) {
    const std::string expert = block + "experts." + std::to_string(e) + ".";
    layout.in_proj.push_back(linear_layout(expert + names.gate, rows, k_in, false));
    layout.in_proj.push_back(linear_layout(expert + names.up, rows, k_in, false));
    layout.out_proj.push_back(linear_layout(expert + names.down, k_out, rows, false));
  }
  layout.shortcut = {layer + ".mlp_shortcut.weight", {k_out, k_in}};
  return layout;
}

}  // namespace

SublayerLayout sublayer_layout(const ModelConfig& config, int64_t sublayer, int64_t k_in,
                               int64_t k_out) {
  const std::string layer = "model.layers." + std::to_string(sublayer / 2);
  if (is_attention(sublayer)) return attention_layout(config, layer, k_in, k_out);
  if (config.is_mixture(sublayer)) {
    return mixture_layout(*config.mixture, layer, config.hidden_size, k_in, k_out);
  }
  return mlp_layout(config, layer, k_in, k_out);
}

}  // namespace dotresize
