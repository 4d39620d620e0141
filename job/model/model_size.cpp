#include "job/model/model_size.h"

#include <cmath>
#include <string>

#include "base/errors.h"

namespace dotresize {
namespace {

int64_t attention_parameters(const ModelConfig& config, int64_t k_in, int64_t k_out) {
  const int64_t heads = config.num_heads * config.head_dim;
  const int64_t heads_qkv = heads + 2 * config.num_kv_heads * config.head_dim;
  return heads_qkv * k_in + (config.attention_bias ? heads_qkv : 0) +
         (config.head_norms ? 2 * config.head_dim : 0) +  //
         k_out * heads + (config.output_bias ? k_out : 0);
}

int64_t mlp_parameters(const ModelConfig& config, int64_t k_in, int64_t k_out) {
  const int64_t ff = config.intermediate_size;
  return 2 * ff * k_in + k_out * ff + (config.mlp_bias ? 2 * ff + k_out : 0);
}

/// The router and so many of the experts.
int64_t mixture_parameters(const MixtureConfig& mixture, int64_t experts, int64_t k_in,
                           int64_t k_out) {
  return mixture.experts * k_in + experts * mixture.intermediate_size * (2 * k_in + k_out);
}

int64_t projection_parameters(const ModelConfig& config, int64_t sublayer, int64_t k_in,
                              int64_t k_out) {
  if (sublayer % 2 == 0) return attention_parameters(config, k_in, k_out);
  if (!config.is_mixture(sublayer)) return mlp_parameters(config, k_in, k_out);
  return mixture_parameters(*config.mixture, config.mixture->experts, k_in, k_out);
}

}  // namespace

int64_t sublayer_parameters(const ModelConfig& config, int64_t sublayer, int64_t k_in,
                            int64_t k_out, bool folded) {
  return projection_parameters(config, sublayer, k_in, k_out) + (folded ? k_in * k_out : k_in);
}

int64_t active_parameters(const ModelConfig& config, int64_t sublayer) {
  const int64_t d = config.hidden_size;
  if (!config.is_mixture(sublayer)) return sublayer_parameters(config, sublayer, d, d, false);
  return mixture_parameters(*config.mixture, config.mixture->experts_per_token, d, d) + d;
}

int64_t stored_parameters(const ModelConfig& config) {
  const std::vector<int64_t>& widths = config.junction_widths;
  int64_t total = config.vocab_size * widths.front();
  if (!config.tie_word_embeddings) total += config.vocab_size * widths.back();
  if (!config.compressed) total += widths.back();
  for (int64_t s = 0; s < config.num_sublayers(); ++s) {
    total += projection_parameters(config, s, widths[s], widths[s + 1]);
    if (!config.compressed) total += widths[s];
    if (config.has_shortcut(s)) total += widths[s] * widths[s + 1];
  }
  return total;
}

int64_t default_round_to(int64_t hidden_size) { return hidden_size >= 2048 ? 64 : 8; }

int64_t width_from_sparsity(double sparsity, int64_t hidden_size, int64_t round_to) {
  if (round_to == 0) round_to = default_round_to(hidden_size);
  const double multiples =
      (1.0 - sparsity) * static_cast<double>(hidden_size) / static_cast<double>(round_to);
  const int64_t width = static_cast<int64_t>(std::floor(multiples + 1e-9)) * round_to;
  if (width <= 0) {
    throw InputError("method.sparsity",
                     std::to_string(sparsity) + " of hidden size " + std::to_string(hidden_size) +
                         " leaves no width that is a multiple of " + std::to_string(round_to) +
                         "; a smaller sparsity, a smaller round_to or an explicit width would do");
  }
  return width;
}

}  // namespace dotresize
