#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace dotresize {

/// Rotary position embedding, from `rope_parameters` (transformers 5) or from `rope_theta` and
/// `rope_scaling` (transformers 4).
struct RotaryConfig {
  std::string type = "default";  ///< default, linear, dynamic, yarn, longrope or llama3
  double theta = 10000.0;
  double partial_factor = 1.0;     ///< rotated fraction of each head's channels, the first ones
  double partial_if_absent = 1.0;  ///< what loaders take for it if a config does not state it
  int64_t channels = 0;            ///< rotated channels of each head
  bool interleaved = false;  ///< neighbouring channels are a pair, not those of the two halves
  double factor = 1.0;       ///< extension of the context; all types but default
  double alpha = 0.0;  ///< dynamic: theta is stretched by it for windows of any length; 0: not
  /// Context length before the extension; yarn, longrope and llama3.
  int64_t original_max_position_embeddings = 0;
  double attention_factor = 1.0;  ///< factor of cos and sin; yarn and longrope
  double low_freq_factor = 1.0;   ///< llama3
  double high_freq_factor = 4.0;  ///< llama3
  double beta_fast = 32.0;        ///< yarn: channels with more rotations than this stay unchanged
  double beta_slow = 1.0;         ///< yarn: channels with fewer rotations are slowed by `factor`
  bool truncate = true;           ///< yarn: limits of the channels in between are whole numbers
  /// longrope: divisors of the frequencies, [channels / 2]; `short_factor` for windows of up to
  /// original_max_position_embeddings tokens, `long_factor` for longer ones.
  std::vector<double> short_factor = {};
  std::vector<double> long_factor = {};
  /// Queries are multiplied by 1 + query_beta · ln(1 + ⌊position /
  /// original_max_position_embeddings⌋). Absent in families whose configs do not have it.
  std::optional<double> query_beta = std::nullopt;

  bool operator==(const RotaryConfig&) const = default;
};

/// RMSNorms of queries and keys, and their names in a checkpoint.
struct HeadNorms {
  bool over_all_heads = false;  ///< one norm over all heads together; its weight is as long
  bool behind_rotary = false;   ///< they come behind the rotary embedding
  std::string_view query = "q_norm";
  std::string_view key = "k_norm";

  bool operator==(const HeadNorms&) const = default;
};

/// Gated DeltaNet (https://arxiv.org/abs/2412.06464), a linear attention: a state for each value
/// head in place of keys and values of earlier tokens.
struct DeltaNetSpec {
  int64_t key_heads = 0;  ///< query heads too; each serves value_heads / key_heads value heads
  int64_t value_heads = 0;
  int64_t key_dim = 0;    ///< channels of a key head
  int64_t value_dim = 0;  ///< channels of a value head
  int64_t taps = 0;       ///< width of the causal convolution over queries, keys and values

  int64_t keys() const { return key_heads * key_dim; }
  int64_t values() const { return value_heads * value_dim; }
  /// Channels of the convolution: queries, keys and values side by side.
  int64_t mixed() const { return 2 * keys() + values(); }
  bool operator==(const DeltaNetSpec&) const = default;
};

/// Attention of one layer.
struct AttentionSpec {
  int64_t num_heads = 0;
  int64_t num_kv_heads = 0;
  int64_t head_dim = 0;  ///< channels of each query and key head
  /// Channels of each value head, at most head_dim. 0: the layer has no attention.
  int64_t value_head_dim = 0;
  bool bias = false;         ///< biases of q, k, v
  bool output_bias = false;  ///< bias of o
  bool fused = false;        ///< q, k, v are one matrix
  /// q has twice the rows: those of each head are followed by those of a gate, whose sigmoid
  /// multiplies what o reads.
  bool gated = false;
  /// The layer has a DeltaNet in place of an attention; only value_head_dim is used besides.
  std::optional<DeltaNetSpec> delta_net = std::nullopt;
  std::optional<HeadNorms> head_norms = std::nullopt;
  /// Each head has a number that joins the scores in the softmax, and has no value.
  bool sinks = false;
  /// Factor of queries times keys. Absent: 1 / sqrt(head_dim).
  std::optional<double> scale = std::nullopt;
  /// Limit c of the scores: s becomes c · tanh(s / c).
  std::optional<double> score_cap = std::nullopt;
  std::optional<int64_t> sliding_window = std::nullopt;
  /// Rotary embedding, an index of ModelConfig::rotaries. Absent: no position embedding (NoPE).
  std::optional<std::size_t> rotary = 0;

  /// Returns true if the scores of all pairs of tokens are held: faster kernels have neither limits
  /// nor sinks.
  bool holds_scores() const { return score_cap || sinks; }
  /// Channels of each head that o reads.
  int64_t inner_width() const { return value_head_dim; }
  bool operator==(const AttentionSpec&) const = default;
};

/// Names of the parts of a mixture of experts in a checkpoint: "model.layers.N.BLOCK.ROUTER",
/// "model.layers.N.BLOCK.experts.E.GATE" and so on for an expert, "model.layers.N.SHARED.GATE" for
/// the shared expert.
struct MixtureNames {
  std::string_view block;
  std::string_view gate;  ///< also names gate and up as one matrix (MlpSpec::fused)
  std::string_view up;
  std::string_view down;
  std::string_view shared = {};       ///< empty: there is no shared expert
  std::string_view shared_gate = {};  ///< in BLOCK: the shared expert's gate; empty: it has none
  std::string_view router = "gate";
  /// In files all experts have one tensor of each kind: "BLOCK.experts.GATE" [experts, in, out],
  /// and "BLOCK.experts.GATE_bias" [experts, out].
  bool stacked = false;

  bool operator==(const MixtureNames&) const = default;
};

/// Scores of experts, from the router's output: the softmax over all experts, or the sigmoid of
/// each.
enum class RouterScores { kSoftmax, kSigmoid };

/// Mixture of experts: several smaller MLPs in place of one, of which a router chooses a few for
/// each token, those of the highest scores. The scores of the chosen ones are their weights.
struct MixtureSpec {
  int64_t experts = 0;
  int64_t experts_per_token = 0;  ///< 1 .. experts
  bool normed_weights = false;    ///< the weights of a token's experts are divided by their sum
  MixtureNames names = {};
  RouterScores scores = RouterScores::kSoftmax;
  bool choice_bias = false;  ///< each expert has a number that is added to its score for the choice
  double weight_scale = 1.0;  ///< factor of the weights
  /// Groups of neighbouring experts. A token's experts come from its `groups_per_token` best ones,
  /// by the sum of their two highest scores.
  int64_t groups = 1;
  int64_t groups_per_token = 1;
  /// Features of the shared expert, an MLP that all tokens go through, and of one of the others,
  /// both in the source. A cut keeps their ratio (shared_features()). 0: there is no shared expert.
  int64_t shared_size = 0;
  int64_t expert_size = 0;

  bool operator==(const MixtureSpec&) const = default;
};

/// Function between gate and up, by its name in config.json: silu, gelu_pytorch_tanh.
enum class Activation { kSilu, kGeluTanh };

/// Features (u + 1) · g · sigmoid(sharpness · g), with g = min(gate, limit) and u = up within
/// -limit .. limit.
struct LimitedGlu {
  double limit = 0.0;
  double sharpness = 0.0;

  bool operator==(const LimitedGlu&) const = default;
};

/// MLP of one layer.
struct MlpSpec {
  int64_t intermediate_size = 0;  ///< d_ff, of each expert in a mixture. 0: the layer has no MLP.
  bool bias = false;              ///< biases of gate, up, down; in a mixture also of the router
  bool fused = false;             ///< gate and up are one matrix
  bool interleaved = false;       ///< rows of that matrix are of gate and up in turn
  Activation activation = Activation::kSilu;
  std::optional<LimitedGlu> limited = std::nullopt;  ///< in place of the activation
  std::optional<MixtureSpec> mixture = std::nullopt;

  /// Number of matrices that gate and up are.
  int64_t in_matrices() const { return fused ? 1 : 2; }
  bool operator==(const MlpSpec&) const = default;
};

/// Names of a layer's RMSNorms in a checkpoint. Empty: it has no such norm. A norm behind a
/// sublayer norms what the sublayer adds to the stream.
struct NormNames {
  std::string_view before_attention = "input_layernorm";
  std::string_view behind_attention = {};
  std::string_view before_mlp = "post_attention_layernorm";
  std::string_view behind_mlp = {};

  /// Returns true if the sublayers read the stream through norms, and add to it without any.
  bool are_only_before() const { return behind_attention.empty() && behind_mlp.empty(); }
  bool operator==(const NormNames&) const = default;
};

/// One decoder layer. Sizes and forms may differ between the layers of a model.
struct LayerSpec {
  AttentionSpec attention;
  MlpSpec mlp;
  NormNames norms = {};
  double residual_scale = 1.0;  ///< factor of what attention and MLP add to the stream

  bool operator==(const LayerSpec&) const = default;
};

}  // namespace dotresize
