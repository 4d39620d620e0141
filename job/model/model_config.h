#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "job/model/dtype.h"

namespace dotresize {

// Sublayer 2l is the attention of layer l, sublayer 2l+1 its MLP. Junction 0 is the embedding's
// output; sublayer s reads junction s and writes junction s+1.

int64_t layer_of(int64_t sublayer);
bool is_attention(int64_t sublayer);
/// "layers.3.attention", "layers.3.mlp".
std::string sublayer_name(int64_t sublayer);
/// "embed" for junction 0, else the name of the sublayer that writes it.
std::string junction_name(int64_t junction);

/// Rotary position embedding, from `rope_parameters` (transformers 5) or from `rope_theta` and
/// `rope_scaling` (transformers 4).
struct RotaryConfig {
  std::string type = "default";  ///< default, linear, dynamic, yarn, longrope or llama3
  double theta = 10000.0;
  double partial_factor = 1.0;  ///< rotated fraction of each head's channels, the first ones
  double factor = 1.0;          ///< extension of the context; all types but default
  /// Context length before the extension; yarn, longrope and llama3.
  int64_t original_max_position_embeddings = 0;
  double attention_factor = 1.0;  ///< factor of cos and sin; yarn and longrope
  double low_freq_factor = 1.0;   ///< llama3
  double high_freq_factor = 4.0;  ///< llama3
  double beta_fast = 32.0;        ///< yarn: channels with more rotations than this stay unchanged
  double beta_slow = 1.0;         ///< yarn: channels with fewer rotations are slowed by `factor`
  bool truncate = true;           ///< yarn: limits of the channels in between are whole numbers
  /// longrope: divisors of the frequencies, [rotary_dim / 2]; `short_factor` for windows of up to
  /// original_max_position_embeddings tokens, `long_factor` for longer ones.
  std::vector<double> short_factor;
  std::vector<double> long_factor;

  bool operator==(const RotaryConfig&) const = default;
};

/// Returns true if the sublayer reads and writes junctions of one group. `groups`:
/// ModelConfig::junction_groups.
bool in_one_group(const std::vector<int64_t>& groups, int64_t sublayer);

/// Names of the parts of a mixture of experts in a checkpoint: "model.layers.N.BLOCK.gate" for the
/// router, "model.layers.N.BLOCK.experts.E.GATE" and so on for an expert.
struct MixtureNames {
  std::string block;
  std::string gate;
  std::string up;
  std::string down;
};

/// Mixture of experts: several smaller MLPs in place of one, of which a router chooses a few for
/// each token.
struct MixtureConfig {
  int64_t experts = 0;            ///< experts in each layer with a mixture
  int64_t experts_per_token = 0;  ///< 1 .. experts
  int64_t intermediate_size = 0;  ///< d_ff of one expert
  bool normed_weights = false;    ///< the weights of a token's experts are divided by their sum
  std::vector<bool> layers;       ///< [L] true: mixture, false: dense MLP
  MixtureNames names;
};

/// Attention of a model.
struct AttentionConfig {
  int64_t num_heads = 0;
  int64_t num_kv_heads = 0;
  int64_t head_dim = 0;
  bool bias = false;         ///< biases of q, k, v
  bool output_bias = false;  ///< bias of o
  bool head_norms = false;   ///< each query and key head has an RMSNorm with a weight [head_dim]
  std::optional<int64_t> sliding_window;
  RotaryConfig rotary;
};

/// Stored form of a sublayer's skip path between the widths k_in and k_out: one matrix [k_in,
/// k_out], or the identity, cut or zero-padded to these widths, plus a matrix of low rank
/// (docs/method.md, "Shortcuts"):
///   1 factor: I - A·A' with A [k_in, rank] and A' the transpose of A's first k_out rows (padded
///   with rows of zeros); only for orthonormal maps
///   2 factors: I + A·B with B [rank, k_out]; for oblique maps, whose M_inv is not Mᵀ
struct ShortcutForm {
  std::optional<int64_t> rank = {};  ///< absent: one matrix
  /// 1 or 2. If rank is absent or 0, it only says whether the maps are oblique.
  int64_t factors = 1;

  bool dense() const { return !rank.has_value(); }
  bool operator==(const ShortcutForm&) const = default;
};

/// The identity: nothing is stored.
inline constexpr ShortcutForm kIdentityShortcut{.rank = 0};

/// Sizes and shapes that a compressed model has besides its source's.
struct NarrowForm {
  /// Width of each of the 2L+1 junctions; all are hidden_size for a dense model.
  std::vector<int64_t> junction_widths;
  /// Group of each junction, ascending. Junctions of a group have the same map and width, so the
  /// skip paths between them need no shortcut. Empty: every junction is its own group.
  std::vector<int64_t> junction_groups;
  /// Shortcut of each sublayer. Empty: one matrix each, the identity within a group.
  std::vector<ShortcutForm> shortcuts;
  /// [L] features of the layer's MLP, or of each of its experts, if layers differ; 0: the layer has
  /// no MLP. Empty: intermediate_size, or the mixture's one.
  std::vector<int64_t> intermediate_sizes;
  /// [L] channels of each value head in the layer's attention, at most head_dim (which queries and
  /// keys keep); 0: the layer has no attention. Empty: head_dim, as in all stock models.
  std::vector<int64_t> value_head_dims;
  // With tied embeddings, whose shared table is hidden_size wide: a matrix lies between the table
  // and the first junction, and between the last junction and the table.
  bool embedding_projection = false;
  bool head_projection = false;
  bool norm_weights = false;  ///< there is no map, and the norms keep their weights
};

/// Model description read from config.json, dense or compressed (`model_type: dotresize`).
struct ModelConfig {
  std::string family;       ///< "llama", "qwen2", ...; for a compressed model its source's family
  bool compressed = false;  ///< model_type is "dotresize"
  int64_t hidden_size = 0;  ///< d; for a compressed model its source's d, by which RMSNorm divides
  int64_t intermediate_size = 0;
  int64_t num_layers = 0;  ///< L
  int64_t vocab_size = 0;
  int64_t max_position_embeddings = 0;
  double rms_norm_eps = 1e-6;
  AttentionConfig attention;
  bool mlp_bias = false;             ///< biases of gate, up, down
  bool fused_in_proj = false;        ///< q, k, v are one matrix; gate and up are another
  bool tie_word_embeddings = false;  ///< the head uses the embedding's matrix
  std::optional<MixtureConfig> mixture;
  std::optional<Dtype> stated_dtype;  ///< in config.json
  /// Dtypes of the stored tensors. They are those of the files once these are read
  /// (job/checkpoint/source_model.h); before that, stated_dtype or float32 for all.
  StoredDtypes dtypes;
  /// Bytes of all tensors in the files, also of those that the model does not use. 0: not read.
  int64_t file_bytes = 0;
  NarrowForm form;

  /// Channels of a head that the rotary embedding rotates.
  int64_t rotary_dim() const {
    return static_cast<int64_t>(static_cast<double>(attention.head_dim) *
                                attention.rotary.partial_factor);
  }
  /// Longest window in tokens: max_position_embeddings, times the factor of a dynamic rotary
  /// embedding.
  int64_t longest_window() const {
    const double stretch = attention.rotary.type == "dynamic" ? attention.rotary.factor : 1.0;
    return static_cast<int64_t>(static_cast<double>(max_position_embeddings) * stretch);
  }
  int64_t num_junctions() const { return 2 * num_layers + 1; }
  /// Columns of the embedding matrix.
  int64_t embedding_width() const {
    return tie_word_embeddings ? hidden_size : form.junction_widths.front();
  }
  /// Columns of the head matrix.
  int64_t head_width() const {
    return tie_word_embeddings ? hidden_size : form.junction_widths.back();
  }
  /// Returns true if the last norm has a weight, which is then not folded into the matrix behind
  /// it.
  bool has_final_norm() const {
    return !compressed || form.norm_weights || (tie_word_embeddings && !form.head_projection);
  }
  int64_t num_sublayers() const { return 2 * num_layers; }
  /// Returns true if the sublayer is a mixture of experts.
  bool is_mixture(int64_t sublayer) const;
  /// Stored form of the sublayer's skip path; kIdentityShortcut in a dense model.
  ShortcutForm shortcut(int64_t sublayer) const;
};

/// Features (d_ff) of the sublayer's MLP, or of each of its experts. 0 for an attention.
int64_t mlp_width(const ModelConfig& config, int64_t sublayer);

/// Channels of each value head of the sublayer's attention. 0 for an MLP.
int64_t value_head_dim(const ModelConfig& config, int64_t sublayer);

/// mlp_width of an MLP, value_head_dim of an attention.
int64_t inner_width(const ModelConfig& config, int64_t sublayer);

/// Returns true for a sublayer of inner width 0: it is only its skip path, without projections or
/// norm.
bool is_skipped(const ModelConfig& config, int64_t sublayer);

/// Returns true if the sublayer adds a bias to the stream. Such a sublayer is not skipped.
bool has_output_bias(const ModelConfig& config, int64_t sublayer);

/// Number of stored parameters.
int64_t shortcut_parameters(const ShortcutForm& form, int64_t k_in, int64_t k_out);

/// The largest rank of the difference to the identity, for maps of d channels that are rotated into
/// each other.
int64_t exact_shortcut_rank(int64_t k_in, int64_t k_out, int64_t d, int64_t factors);

/// Returns the form with the fewest parameters: of rank exact_shortcut_rank, or one matrix if that
/// is no larger.
ShortcutForm smallest_shortcut(int64_t k_in, int64_t k_out, int64_t d, int64_t factors);

}  // namespace dotresize
