#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "job/model/model_config.h"

namespace dotresize {

/// Supported architecture: facts that config.json does not contain. The values for absent keys are
/// those of transformers' configuration classes.
struct ModelFamily {
  enum class AttentionBias {
    kNone,
    kQkv,           ///< q, k and v always, o never
    kAsConfigured,  ///< q, k, v and o if attention_bias is set
  };
  enum class Window {
    kNone,
    kEveryLayer,   ///< sliding_window, if set, limits every layer
    kIfUsed,       ///< sliding_window limits every layer if use_sliding_window is set
    kByLayerType,  ///< use_sliding_window with max_window_layers or layer_types
  };

  /// MLPs that are mixtures of experts.
  struct Mixture {
    std::string experts_key;            ///< config.json key for the number of experts in a layer
    std::string intermediate_size_key;  ///< config.json key for d_ff of one expert
    bool offers_dense_layers = false;   ///< reads decoder_sparse_step and mlp_only_layers
    bool offers_plain_weights = false;  ///< reads norm_topk_prob: whether weights are normed
    MixtureNames names;
  };

  std::string model_type;
  std::string architecture;  ///< the only accepted entry of `architectures`
  AttentionBias attention_bias = AttentionBias::kNone;
  bool offers_mlp_bias = false;
  bool fused_in_proj = false;  ///< qkv_proj and gate_up_proj in place of one matrix each
  bool head_norms = false;     ///< q_norm and k_norm on every head
  bool offers_partial_rotary = false;
  /// The configuration class refuses rotary types other than default and longrope (also spelled su
  /// and yarn).
  bool rotary_is_default_or_longrope = false;
  bool heads_divide_hidden_size = false;  ///< required by its configuration class, for any head_dim
  bool offers_stock_output = false;       ///< supports output.format: stock
  Window window = Window::kNone;
  std::optional<int64_t> sliding_window_if_absent = std::nullopt;
  /// With layer_types the window is on the layers that they name: transformers then makes the model
  /// one of another class (ministral).
  bool layer_types_name_window = false;
  /// Absent: the number of query heads.
  std::optional<int64_t> kv_heads_if_absent = std::nullopt;
  /// Absent: hidden_size / heads.
  std::optional<int64_t> head_dim_if_absent = std::nullopt;
  int64_t max_position_embeddings_if_absent = 0;
  /// Absent: read from the rotary settings, else max_position_embeddings.
  std::optional<int64_t> original_max_position_embeddings_if_absent = std::nullopt;
  double rms_norm_eps_if_absent = 1e-6;
  double rope_theta_if_absent = 1e4;
  std::optional<Mixture> mixture = std::nullopt;
};

/// `architectures` of a custom output with maps.
inline constexpr const char* kNarrowedArchitecture = "DotResizeForCausalLM";

/// `architectures` of a custom output without maps, whose class is the family's with sizes by
/// layer.
inline std::string layer_sizes_architecture(const ModelFamily& family) {
  return "DotResize" + family.architecture;
}

/// Returns null for an unsupported family.
const ModelFamily* find_family(const std::string& model_type);

/// Error text: the reason why a model_type is refused, and the accepted ones.
std::string reason_for_refusal(const std::string& model_type);

}  // namespace dotresize
