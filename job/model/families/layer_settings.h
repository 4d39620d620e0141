#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <vector>

#include "job/model/config_fields.h"
#include "job/model/model_config.h"

namespace dotresize {

// Settings of layers that several families have. All throw InputError for values out of range and
// contradictory values.

/// Sets the biases of q, k, v and o in all layers.
void set_attention_biases(bool bias, bool output_bias, ModelConfig& config);

/// Reads `attention_bias`, for q, k, v and o alike.
void read_attention_biases(const ConfigFields& fields, bool if_absent, ModelConfig& config);

/// Reads `mlp_bias`; false if it is absent.
void read_mlp_biases(const ConfigFields& fields, ModelConfig& config);

/// Throws if one of these keys asks for biases, which the family does not have.
void refuse_biases(const ConfigFields& fields, std::initializer_list<const char*> keys,
                   const ModelConfig& config);

/// Sets `sliding_window` in all layers; `if_absent` if the key is absent.
void read_window(const ConfigFields& fields, std::optional<int64_t> if_absent, ModelConfig& config);

/// Sets `sliding_window` in the layers that `layer_types` names, or without such a list in those
/// from max_window_layers on. `use_sliding_window` says whether there is a window at all.
void read_window_by_layer(const ConfigFields& fields, ModelConfig& config);

/// Sets `sliding_window`, or `if_absent`, in these layers. Throws if it is null and there are any.
void read_window(const ConfigFields& fields, std::optional<int64_t> if_absent,
                 const std::vector<bool>& layers, ModelConfig& config);

/// Returns which layers `layer_types` gives this type. Throws for other types than that and
/// full_attention.
std::vector<bool> layers_of_type(const ConfigFields& fields, const char* type,
                                 const ModelConfig& config);

/// Returns the same for a config without `layer_types` too: then every `period`-th layer has
/// full_attention.
std::vector<bool> layers_of_type(const ConfigFields& fields, const char* type, int64_t period,
                                 const ModelConfig& config);

/// Returns which layers have a window by `layer_types`, which must agree with use_sliding_window.
std::vector<bool> listed_windows(const ConfigFields& fields, bool used, const ModelConfig& config);

/// Layers of the type sliding_attention.
std::vector<bool> sliding_layers(const ConfigFields& fields, const ModelConfig& config);

std::vector<bool> sliding_layers(const ConfigFields& fields, int64_t period,
                                 const ModelConfig& config);

/// Norms of layers that read the stream as it is, and norm what they add to it.
inline constexpr NormNames kNormsBehindSublayers{.before_attention = {},
                                                 .behind_attention = "post_attention_layernorm",
                                                 .before_mlp = {},
                                                 .behind_mlp = "post_feedforward_layernorm"};

/// Keys of a family's mixtures of experts.
struct MixtureKeys {
  const char* experts;                ///< number of experts in a layer
  const char* intermediate_size;      ///< d_ff of one expert
  const char* shared_size = nullptr;  ///< d_ff of the shared expert, if a key states it
};

/// Mixtures of qwen2_moe and its kin: a shared expert with a gate.
inline constexpr MixtureKeys kQwen2MoeKeys{.experts = "num_experts",
                                           .intermediate_size = "moe_intermediate_size",
                                           .shared_size = "shared_expert_intermediate_size"};
inline constexpr MixtureNames kQwen2MoeNames{.block = "mlp",
                                             .gate = "gate_proj",
                                             .up = "up_proj",
                                             .down = "down_proj",
                                             .shared = "mlp.shared_expert",
                                             .shared_gate = "shared_expert_gate"};

/// Limit of the rows of all experts of a layer together, so that no product of sizes overflows 64
/// bits. Larger than in any existing model.
inline constexpr int64_t kMaxRows = int64_t{1} << 22;

/// Returns which layers have a mixture: every decoder_sparse_step-th one that mlp_only_layers does
/// not list.
std::vector<bool> mixtures_by_step(const ConfigFields& fields, const ModelConfig& config);

/// Makes the MLPs of these layers mixtures of this form, with the sizes that the keys state.
/// transformers 5 may write num_local_experts in place of `keys.experts`.
void read_mixtures(const ConfigFields& fields, const MixtureKeys& keys, const MixtureSpec& form,
                   const std::vector<bool>& layers, ModelConfig& config);

/// Writes the number of experts and the features, in the dialects of transformers 4 and 5.
void write_mixtures(const MixtureKeys& keys, nlohmann::json& config, const ModelConfig& output);

}  // namespace dotresize
