#pragma once

#include <cstdint>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "job/model/dtype.h"
#include "job/model/layer_spec.h"

namespace dotresize {

// Sublayer 2l is the attention of layer l, sublayer 2l+1 its MLP. Junction 0 is the embedding's
// output; sublayer s reads junction s and writes junction s+1.

int64_t layer_of(int64_t sublayer);
bool is_attention(int64_t sublayer);
/// "layers.3.attention", "layers.3.mlp".
std::string sublayer_name(int64_t sublayer);
/// "embed" for junction 0, else the name of the sublayer that writes it.
std::string junction_name(int64_t junction);

/// Returns true if the sublayer reads and writes junctions of one group. `groups`:
/// ModelConfig::junction_groups.
bool in_one_group(const std::vector<int64_t>& groups, int64_t sublayer);

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
  /// The config states the sizes of units (job/model/units/unit.h) in each layer. Else it states
  /// one size for all layers.
  bool sizes_by_layer = false;
  // With tied embeddings, whose shared table is hidden_size wide: a matrix lies between the table
  // and the first junction, and between the last junction and the table.
  bool embedding_projection = false;
  bool head_projection = false;
  bool norm_weights = false;  ///< there is no map, and the norms keep their weights
};

/// Model around the one of text (job/model/wrappers.h), and what its files hold besides.
struct Wrapper {
  std::string model_type;    ///< "gemma3"
  std::string architecture;  ///< "Gemma3ForConditionalGeneration"
  // Known once the files are read:
  std::string base_names = {};  ///< beginning of the text part's names in place of "model."
  std::string head_names = {};  ///< the same in place of "lm_head."
  int64_t other_tensors = 0;    ///< tensors beside the text part, which an output copies
  int64_t other_bytes = 0;
};

/// Form of a source's weights in 8 or 4 bits. They are read as bfloat16.
struct Quantisation {
  std::string name;          ///< "fp8", "compressed-tensors", "mxfp4"
  std::string weight_dtype;  ///< as in the files: "F8_E4M3", "I8"; "U8" for two numbers of 4 bits
  /// Rows and columns that share a scale. 0: a whole matrix or each row, as the scales' shape says.
  int64_t block_rows = 0;
  int64_t block_columns = 0;
  bool packed = false;  ///< numbers of 4 bits, in blocks of 32 with an exponent

  bool operator==(const Quantisation&) const = default;
};

/// Class of tokenizer that transformers 5 takes for a directory (job/model/tokenizer_class.h).
struct TokenizerForm {
  std::string class_name;   ///< "LlamaTokenizer"
  bool byte_level = false;  ///< tokenizer.json splits texts into bytes
};

/// Form in which the files hold the model's tensors.
struct FileForm {
  std::optional<Dtype> stated_dtype;  ///< in config.json
  /// Dtypes of the stored tensors. They are those of the files once these are read
  /// (job/checkpoint/source_model.h); before that, stated_dtype or else float32, of a quantised
  /// source bfloat16, for all.
  StoredDtypes dtypes;
  /// Bytes of all tensors, also of those that the model does not use. 0: not read.
  int64_t bytes = 0;
  std::optional<Wrapper> wrapper = {};            ///< the model is the text part of another one
  std::optional<Quantisation> quantisation = {};  ///< weights are stored in 8 or 4 bits
  /// Beginnings of the stored names of layers that predict further tokens. They are not read.
  std::vector<std::string> further_layers = {};
  /// Absent: not read, there is no tokenizer.json, or a class of the model's own code reads it.
  std::optional<TokenizerForm> tokenizer = {};
};

/// Model description read from config.json, dense or compressed (`model_type: dotresize`).
struct ModelConfig {
  std::string family;       ///< "llama", "qwen2", ...; for a compressed model its source's family
  bool compressed = false;  ///< model_type is "dotresize"
  int64_t hidden_size = 0;  ///< d; for a compressed model its source's d, by which RMSNorm divides
  int64_t vocab_size = 0;
  int64_t max_position_embeddings = 0;
  double rms_norm_eps = 1e-6;
  std::vector<LayerSpec> layers;       ///< [L]
  std::vector<RotaryConfig> rotaries;  ///< embeddings that layers use; at least one
  double norm_offset = 0.0;            ///< added to every stored weight of an RMSNorm
  double embedding_scale = 1.0;        ///< factor of the embedding's output
  double logit_scale = 1.0;            ///< factor of the head's output
  /// Limit c of the logits: z becomes c · tanh(z / c).
  std::optional<double> logit_cap = std::nullopt;
  bool tie_word_embeddings = false;  ///< the head uses the embedding's matrix
  NarrowForm form;
  FileForm files;

  int64_t num_layers() const { return std::ssize(layers); }  ///< L
  int64_t num_sublayers() const { return 2 * num_layers(); }
  int64_t num_junctions() const { return num_sublayers() + 1; }
  /// Names of the norms before and behind the sublayer. Empty: it has none.
  std::string_view norm_before(int64_t sublayer) const;
  std::string_view norm_behind(int64_t sublayer) const;
  /// Attention of the sublayer's layer.
  const AttentionSpec& attention(int64_t sublayer) const;
  /// MLP of the sublayer's layer.
  const MlpSpec& mlp(int64_t sublayer) const;
  /// Returns true if the sublayer is a mixture of experts.
  bool is_mixture(int64_t sublayer) const;
  /// Returns true if a mixture has a shared expert.
  bool has_shared_expert() const;
  /// Bytes beside the text part that an output copies.
  int64_t copied_bytes() const { return files.wrapper ? files.wrapper->other_bytes : 0; }
  /// Longest window in tokens: max_position_embeddings, times the factor of a dynamic rotary
  /// embedding.
  int64_t longest_window() const;
  /// Columns of the embedding matrix.
  int64_t embedding_width() const {
    return tie_word_embeddings ? hidden_size : form.junction_widths.front();
  }
  /// Columns of the head matrix.
  int64_t head_width() const {
    return tie_word_embeddings ? hidden_size : form.junction_widths.back();
  }
  /// Returns true if the weights of all norms can be folded into the matrices behind them.
  bool norms_fold() const;
  /// Returns true if the last norm has a weight, which is then not folded into the matrix behind
  /// it.
  bool has_final_norm() const {
    return !compressed || form.norm_weights || (tie_word_embeddings && !form.head_projection);
  }
  /// Stored form of the sublayer's skip path; kIdentityShortcut in a dense model.
  ShortcutForm shortcut(int64_t sublayer) const;
};

/// Features (d_ff) of the sublayer's MLP, or of each of its experts. 0 for an attention.
int64_t mlp_width(const ModelConfig& config, int64_t sublayer);

/// Features of the shared expert beside a mixture. 0: there is none.
int64_t shared_features(const MlpSpec& mlp);

/// Features of a matrix with `whole` of them, once a cut has left `left` of `of` in the others: in
/// the same proportion, rounded up.
int64_t in_proportion(int64_t whole, int64_t left, int64_t of);

/// Features of each MLP of the sublayer: of the one, or of each expert, then of the shared one.
/// Empty for an attention.
std::vector<int64_t> features_of_mlps(const ModelConfig& config, int64_t sublayer);

/// Number of MLPs in the sublayer: 1, or the number of its experts without the shared one. 0 for an
/// attention.
int64_t mlp_count(const ModelConfig& config, int64_t sublayer);

/// Number of them that a token goes through.
int64_t active_mlps(const ModelConfig& config, int64_t sublayer);

/// mlp_width of an MLP, AttentionSpec::inner_width of an attention.
int64_t inner_width(const ModelConfig& config, int64_t sublayer);

/// Returns true for a sublayer of inner width 0: it is only its skip path, without projections or
/// norm.
bool is_skipped(const ModelConfig& config, int64_t sublayer);

/// Number of stored parameters.
int64_t shortcut_parameters(const ShortcutForm& form, int64_t k_in, int64_t k_out);

/// The largest rank of the difference to the identity, for maps of d channels that are rotated into
/// each other.
int64_t exact_shortcut_rank(int64_t k_in, int64_t k_out, int64_t d, int64_t factors);

/// Returns the form with the fewest parameters: of rank exact_shortcut_rank, or one matrix if that
/// is no larger.
ShortcutForm smallest_shortcut(int64_t k_in, int64_t k_out, int64_t d, int64_t factors);

}  // namespace dotresize
