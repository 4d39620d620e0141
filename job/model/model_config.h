#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/files/confinement.h"
#include "job/model/shortcut_form.h"

namespace dotresize {

// Sublayer 2l is the attention of layer l, sublayer 2l+1 its MLP. Junction 0 is the embedding's
// output; sublayer s reads junction s and writes junction s+1.

int64_t layer_of(int64_t sublayer);
bool is_attention(int64_t sublayer);
/// "layers.3.attention", "layers.3.mlp".
std::string sublayer_name(int64_t sublayer);
/// "embed" for junction 0, else the name of the sublayer that writes it.
std::string junction_name(int64_t junction);

/// Rotary position embedding, as `rope_parameters` (transformers 5) or `rope_theta` and
/// `rope_scaling` (transformers 4) state it.
struct RotaryConfig {
  std::string type = "default";  ///< default, linear, dynamic, yarn, longrope or llama3
  double theta = 10000.0;
  double partial_factor = 1.0;  ///< the part of each head's channels that turns, the first ones
  double factor = 1.0;          ///< by how much the context is longer; all types but default
  /// Context before it was made longer; yarn, longrope and llama3.
  int64_t original_max_position_embeddings = 0;
  double attention_factor = 1.0;  ///< cos and sin are multiplied by it; yarn and longrope
  double low_freq_factor = 1.0;   ///< llama3
  double high_freq_factor = 4.0;  ///< llama3
  double beta_fast = 32.0;        ///< yarn: channels that turn more often than this stay
  double beta_slow = 1.0;         ///< yarn: those that turn less often are slowed by `factor`
  bool truncate = true;           ///< yarn: the channels in between are whole numbers
  /// longrope: what divides each frequency, [rotary_dim / 2], in windows of up to
  /// original_max_position_embeddings tokens, and in longer ones.
  std::vector<double> short_factor;
  std::vector<double> long_factor;

  bool operator==(const RotaryConfig&) const = default;
};

/// Whether the sublayer reads and writes junctions of one group. `groups`:
/// ModelConfig::junction_groups.
bool in_one_group(const std::vector<int64_t>& groups, int64_t sublayer);

/// How a checkpoint names the parts of a mixture of experts: "model.layers.N.BLOCK.gate" for the
/// router, "model.layers.N.BLOCK.experts.E.GATE" and so on for an expert.
struct MixtureNames {
  std::string block;
  std::string gate;
  std::string up;
  std::string down;
};

/// Mixture of experts: in place of an MLP several smaller ones, of which a router chooses a few for
/// each token.
struct MixtureConfig {
  int64_t experts = 0;            ///< in each such layer
  int64_t experts_per_token = 0;  ///< 1 .. experts
  int64_t intermediate_size = 0;  ///< of one expert
  bool normed_weights = false;    ///< the weights of a token's experts are divided by their sum
  std::vector<bool> layers;       ///< [L] whether the layer has one, or else a dense MLP
  MixtureNames names;
};

/// What config.json says of a model, dense or compressed (`model_type: dotresize`).
struct ModelConfig {
  std::string family;       ///< "llama", "qwen2", ...; of a compressed model, that of its source
  bool compressed = false;  ///< model_type is "dotresize"
  int64_t hidden_size = 0;  ///< d, also of a compressed model: RMSNorm divides by it
  int64_t intermediate_size = 0;
  int64_t num_layers = 0;  ///< L
  int64_t num_heads = 0;
  int64_t num_kv_heads = 0;
  int64_t head_dim = 0;
  int64_t vocab_size = 0;
  int64_t max_position_embeddings = 0;
  double rms_norm_eps = 1e-6;
  bool attention_bias = false;  ///< of q, k, v
  bool output_bias = false;     ///< of o
  bool mlp_bias = false;        ///< of gate, up, down
  bool fused_in_proj = false;   ///< q, k, v are one matrix, and gate and up are
  bool head_norms = false;      ///< each query and key head is normed, by a weight [head_dim]
  /// The head's matrix is the embedding's.
  bool tie_word_embeddings = false;
  // Of a compressed model with tied embeddings, whose one table is hidden_size wide: a matrix lies
  // between the table and the first junction, and between the last one and the table.
  bool embedding_projection = false;
  bool head_projection = false;
  /// A compressed model without any map: norms have their weights, as in its source.
  bool norm_weights = false;
  std::optional<int64_t> sliding_window;
  RotaryConfig rotary;
  std::optional<MixtureConfig> mixture;
  std::string dtype;  ///< "float32", "float16" or "bfloat16"; empty if the config does not say
  /// Width of each of the 2L+1 junctions; all hidden_size for a dense model.
  std::vector<int64_t> junction_widths;
  /// Group of each junction of a compressed model, ascending: within a group the map and the width
  /// are the same, so that the skip path needs no shortcut. Empty: every junction is on its own.
  std::vector<int64_t> junction_groups;
  /// Of each sublayer of a compressed model. Empty: one matrix each, but within a group nothing.
  std::vector<ShortcutForm> shortcuts;
  /// [L] features of the layer's MLP, or of each of its experts, where they differ from layer to
  /// layer; 0: the layer has none. Empty: intermediate_size, or that of the mixture.
  std::vector<int64_t> intermediate_sizes;
  /// [L] channels of each value head of the layer's attention, up to head_dim, which is that of
  /// queries and keys; 0: the layer has no attention. Empty: head_dim. No stock model has others.
  std::vector<int64_t> value_head_dims;

  /// Channels of a head that the rotary embedding turns.
  int64_t rotary_dim() const {
    return static_cast<int64_t>(static_cast<double>(head_dim) * rotary.partial_factor);
  }
  /// Tokens of the longest window that the model is for: max_position_embeddings, which a dynamic
  /// rotary embedding stretches by its factor.
  int64_t longest_window() const {
    const double stretch = rotary.type == "dynamic" ? rotary.factor : 1.0;
    return static_cast<int64_t>(static_cast<double>(max_position_embeddings) * stretch);
  }
  int64_t num_junctions() const { return 2 * num_layers + 1; }
  /// Columns of the embedding's matrix.
  int64_t embedding_width() const {
    return tie_word_embeddings ? hidden_size : junction_widths.front();
  }
  /// Columns of the head's.
  int64_t head_width() const { return tie_word_embeddings ? hidden_size : junction_widths.back(); }
  /// Whether the last norm has a weight: it is not in the matrix behind it.
  bool has_final_norm() const {
    return !compressed || norm_weights || (tie_word_embeddings && !head_projection);
  }
  int64_t num_sublayers() const { return 2 * num_layers; }
  /// Whether the sublayer is a mixture of experts.
  bool is_mixture(int64_t sublayer) const;
  /// How the sublayer's skip path is stored; kIdentityShortcut in a model that is not compressed.
  ShortcutForm shortcut(int64_t sublayer) const;
};

/// Features (d_ff) of the sublayer's MLP, or of each of its experts. 0 for an attention.
int64_t mlp_width(const ModelConfig& config, int64_t sublayer);

/// Channels of each value head of the sublayer's attention. 0 for an MLP.
int64_t value_head_dim(const ModelConfig& config, int64_t sublayer);

/// Features of an MLP, channels of a value head.
int64_t inner_width(const ModelConfig& config, int64_t sublayer);

/// A sublayer without an inside is only its skip path: it has neither projections nor a norm.
bool is_skipped(const ModelConfig& config, int64_t sublayer);

/// Whether the sublayer adds a bias to the stream: such a one is not skipped.
bool has_output_bias(const ModelConfig& config, int64_t sublayer);

/// Reads and checks `model_dir`/config.json. Throws InputError for a missing or malformed file, an
/// unsupported architecture or variant (by name, with the reason), or values that contradict each
/// other.
ModelConfig read_model_config(const std::filesystem::path& model_dir,
                              const Confinement& confinement = Confinement::of_process());

/// The same from the text of a config.json; `origin` names it in errors.
ModelConfig parse_model_config(const std::string& json_text, const std::string& origin);

}  // namespace dotresize
