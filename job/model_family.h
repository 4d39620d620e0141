#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace dotresize {

/// A supported architecture: what config.json alone does not say. The values for absent keys are
/// those of transformers' configuration classes.
struct ModelFamily {
  std::string model_type;
  std::string architecture;  ///< the only accepted entry of `architectures`
  bool offers_biases;        ///< attention_bias (q, k, v and o) and mlp_bias are honoured
  bool offers_sliding_window;
  bool heads_divide_hidden_size;  ///< its configuration class insists, whatever head_dim says
  std::optional<int64_t> sliding_window_if_absent;
  std::optional<int64_t> kv_heads_if_absent;  ///< without it: as many as query heads
  int64_t max_position_embeddings_if_absent;
};

/// Null for a family that is not supported.
const ModelFamily* find_family(const std::string& model_type);

/// Why a model_type is refused and which ones are accepted.
std::string reason_for_refusal(const std::string& model_type);

}  // namespace dotresize
