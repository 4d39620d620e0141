#include "job/model_size.h"

#include <cmath>
#include <string>

#include "job/errors.h"

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

}  // namespace

int64_t sublayer_parameters(const ModelConfig& config, int64_t sublayer, int64_t k_in,
                            int64_t k_out, bool folded) {
  const int64_t projections = sublayer % 2 == 0 ? attention_parameters(config, k_in, k_out)
                                                : mlp_parameters(config, k_in, k_out);
  const int64_t shortcut_or_norm = folded ? k_in * k_out : k_in;
  return projections + shortcut_or_norm;
}

int64_t dense_parameters(const ModelConfig& config) {
  const int64_t d = config.hidden_size;
  int64_t total = config.vocab_size * d * (config.tie_word_embeddings ? 1 : 2) + d;
  for (int64_t s = 0; s < config.num_sublayers(); ++s) {
    total += sublayer_parameters(config, s, d, d, /*folded=*/false);
  }
  return total;
}

int64_t compressed_parameters(const ModelConfig& config,
                              const std::vector<int64_t>& junction_widths) {
  int64_t total = config.vocab_size * (junction_widths.front() + junction_widths.back());
  for (int64_t s = 0; s < config.num_sublayers(); ++s) {
    total += sublayer_parameters(config, s, junction_widths[s], junction_widths[s + 1],
                                 /*folded=*/true);
  }
  return total;
}

int64_t width_from_sparsity(double sparsity, int64_t hidden_size, int64_t round_to) {
  if (round_to == 0) round_to = hidden_size >= 2048 ? 64 : 8;
  const double multiples =
      (1.0 - sparsity) * static_cast<double>(hidden_size) / static_cast<double>(round_to);
  const int64_t width = static_cast<int64_t>(std::floor(multiples + 1e-9)) * round_to;
  if (width <= 0) {
    throw InputError("method.sparsity: " + std::to_string(sparsity) + " of hidden size " +
                     std::to_string(hidden_size) + " leaves no width that is a multiple of " +
                     std::to_string(round_to) +
                     "; a smaller sparsity, a smaller round_to or an explicit width would do");
  }
  return width;
}

}  // namespace dotresize
