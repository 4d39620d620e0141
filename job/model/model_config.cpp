#include "job/model/model_config.h"

#include <algorithm>

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

std::string_view ModelConfig::norm_before(int64_t sublayer) const {
  const NormNames& norms = layers.at(static_cast<std::size_t>(layer_of(sublayer))).norms;
  return is_attention(sublayer) ? norms.before_attention : norms.before_mlp;
}

std::string_view ModelConfig::norm_behind(int64_t sublayer) const {
  const NormNames& norms = layers.at(static_cast<std::size_t>(layer_of(sublayer))).norms;
  return is_attention(sublayer) ? norms.behind_attention : norms.behind_mlp;
}

bool ModelConfig::norms_fold() const {
  return norm_offset == 0.0 && std::ranges::all_of(layers, [](const LayerSpec& layer) {
           return layer.norms.are_only_before();
         });
}

const AttentionSpec& ModelConfig::attention(int64_t sublayer) const {
  return layers.at(static_cast<std::size_t>(layer_of(sublayer))).attention;
}

const MlpSpec& ModelConfig::mlp(int64_t sublayer) const {
  return layers.at(static_cast<std::size_t>(layer_of(sublayer))).mlp;
}

bool ModelConfig::is_mixture(int64_t sublayer) const {
  return !is_attention(sublayer) && mlp(sublayer).mixture.has_value();
}

bool ModelConfig::has_shared_expert() const {
  return std::ranges::any_of(layers,
                             [](const LayerSpec& layer) { return shared_features(layer.mlp) > 0; });
}

int64_t ModelConfig::longest_window() const {
  double longest = 0.0;
  for (const RotaryConfig& rotary : rotaries) {
    const double stretch = rotary.type == "dynamic" && rotary.alpha == 0.0 ? rotary.factor : 1.0;
    const double window = static_cast<double>(max_position_embeddings) * stretch;
    longest = longest == 0.0 ? window : std::min(longest, window);
  }
  return static_cast<int64_t>(longest);
}

int64_t mlp_width(const ModelConfig& config, int64_t sublayer) {
  return is_attention(sublayer) ? 0 : config.mlp(sublayer).intermediate_size;
}

int64_t in_proportion(int64_t whole, int64_t left, int64_t of) {
  return (whole * left + of - 1) / of;
}

int64_t shared_features(const MlpSpec& mlp) {
  if (!mlp.mixture || mlp.mixture->shared_size == 0) return 0;
  return in_proportion(mlp.mixture->shared_size, mlp.intermediate_size, mlp.mixture->expert_size);
}

std::vector<int64_t> features_of_mlps(const ModelConfig& config, int64_t sublayer) {
  const auto count = static_cast<std::size_t>(mlp_count(config, sublayer));
  std::vector<int64_t> features(count, mlp_width(config, sublayer));
  const int64_t shared = count == 0 ? 0 : shared_features(config.mlp(sublayer));
  if (shared > 0) features.push_back(shared);
  return features;
}

int64_t mlp_count(const ModelConfig& config, int64_t sublayer) {
  if (is_attention(sublayer)) return 0;
  const auto& mixture = config.mlp(sublayer).mixture;
  return mixture ? mixture->experts : 1;
}

int64_t active_mlps(const ModelConfig& config, int64_t sublayer) {
  if (is_attention(sublayer)) return 0;
  const auto& mixture = config.mlp(sublayer).mixture;
  return mixture ? mixture->experts_per_token : 1;
}

int64_t inner_width(const ModelConfig& config, int64_t sublayer) {
  return is_attention(sublayer) ? config.attention(sublayer).inner_width()
                                : mlp_width(config, sublayer);
}

bool is_skipped(const ModelConfig& config, int64_t sublayer) {
  return inner_width(config, sublayer) == 0;
}

ShortcutForm ModelConfig::shortcut(int64_t sublayer) const {
  if (!compressed || in_one_group(form.junction_groups, sublayer)) return kIdentityShortcut;
  return form.shortcuts.empty() ? ShortcutForm{}
                                : form.shortcuts.at(static_cast<std::size_t>(sublayer));
}

int64_t shortcut_parameters(const ShortcutForm& form, int64_t k_in, int64_t k_out) {
  if (form.dense()) return k_in * k_out;
  return *form.rank * (form.factors == 1 ? k_in : k_in + k_out);
}

int64_t exact_shortcut_rank(int64_t k_in, int64_t k_out, int64_t d, int64_t factors) {
  // M_inv_in·M_out is the identity on the intersection of both spans.
  if (factors == 2) return std::min({k_in, k_out, d - std::min(k_in, k_out)});
  // Both maps' spans have at least k_in + k_out - d dimensions in common. The identity, cut to
  // k_out < k_in columns, keeps 2 k_out - d of them.
  return std::min({k_in, k_out, d - k_out});
}

ShortcutForm smallest_shortcut(int64_t k_in, int64_t k_out, int64_t d, int64_t factors) {
  const ShortcutForm form{exact_shortcut_rank(k_in, k_out, d, factors), factors};
  const bool smaller = shortcut_parameters(form, k_in, k_out) < k_in * k_out;
  return smaller ? form : ShortcutForm{.factors = factors};
}

}  // namespace dotresize
