#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "job/model/model_config.h"
#include "job/model/shortcut_form.h"

namespace dotresize {

// The tensors of a model: their names and shapes in a checkpoint, and the junctions that they read
// and write (docs/method.md, "Folding"). Sizes, loading, writing, broadcasts and verification all
// follow this table.

enum class TensorRole {
  kEmbedding,
  kEmbeddingProjection,  ///< between a common table and junction 0; compressed models only
  kInProjWeight,   ///< q, k, v; gate, up; or fused. Mixture: the router, gate and up of each expert
  kOutProjWeight,  ///< o; down; mixture: down of each expert
  kInProjBias,
  kOutProjBias,
  kHeadNorm,        ///< q_norm, k_norm
  kNorm,            ///< before in_proj; of models without maps, dense ones among them
  kShortcut,        ///< on the skip path; compressed models only, as the next two
  kShortcutA,       ///< a factor of what is added to the identity there: A, that reads the stream
  kShortcutB,       ///< B, that writes it
  kFinalNorm,       ///< before the head, if its weight is not folded into what follows
  kHeadProjection,  ///< between the last junction and a common table; compressed models only
  kHead,
};

/// What a sublayer has besides its projections and the norms of its heads.
struct SublayerForm {
  bool norm = false;
  ShortcutForm shortcut = kIdentityShortcut;

  static const SublayerForm kDense;   ///< a norm
  static const SublayerForm kFolded;  ///< a shortcut, one matrix
};

inline constexpr SublayerForm SublayerForm::kDense{.norm = true};
inline constexpr SublayerForm SublayerForm::kFolded{.shortcut = {}};

/// One size of a tensor: a constant, or the width of the junction that the sublayer reads (k_in) or
/// writes (k_out).
struct Extent {
  enum class Kind { kConstant, kIn, kOut };
  Kind kind = Kind::kConstant;
  int64_t constant = 0;
};

/// A tensor of any widths, or one of each expert.
struct TensorRow {
  TensorRole role;
  std::string_view block;   ///< "self_attn", "mlp", ...; empty: directly in the layer
  std::string_view module;  ///< "q_proj", ...
  Extent rows;
  std::optional<Extent> columns;  ///< none: a vector
  bool per_expert = false;
};

/// The rows of a sublayer in writing order, that in which files have its tensors. Their texts live
/// as long as the config.
std::vector<TensorRow> sublayer_rows(const ModelConfig& config, int64_t sublayer,
                                     SublayerForm form);
/// The embedding's matrix, then its projection, if it has one. They write junction 0.
std::vector<TensorRow> embedding_rows(const ModelConfig& config);
/// The final norm and the projection, if the model has them, then the head, also if it is tied to
/// the embedding. They read the last junction.
std::vector<TensorRow> head_rows(const ModelConfig& config);

/// As the config's checkpoint has the sublayer.
SublayerForm stored_form(const ModelConfig& config, int64_t sublayer);

/// Numbers in a tensor, times `experts` if it is one of each expert.
int64_t elements_of(const TensorRow& row, int64_t k_in, int64_t k_out, int64_t experts);

/// One tensor of a checkpoint.
struct StoredTensor {
  std::string name;
  std::vector<int64_t> shape;  ///< matrices as nn.Linear has them, [out, in], shortcuts too
  TensorRole role;
  size_t index = 0;  ///< among those of its role in the sublayer
};

/// The sublayer's tensors in writing order.
std::vector<StoredTensor> sublayer_tensors(const ModelConfig& config, int64_t sublayer,
                                           SublayerForm form, int64_t k_in, int64_t k_out);
/// As the config's checkpoint has them.
std::vector<StoredTensor> sublayer_tensors(const ModelConfig& config, int64_t sublayer);
StoredTensor embedding_tensor(const ModelConfig& config);
/// embedding_rows() and head_rows().
std::vector<StoredTensor> embedding_tensors(const ModelConfig& config);
std::vector<StoredTensor> head_tensors(const ModelConfig& config);
/// The tensor that holds the head's matrix: the embedding's if they are tied.
StoredTensor head_matrix(const ModelConfig& config);
/// The one of this role at the ends of the model; none if the model has none.
std::optional<StoredTensor> end_tensor(const ModelConfig& config, TensorRole role);

/// The tensors of sublayers [first, end) in the config's checkpoint, in writing order; before
/// sublayer 0 the embedding, after the last one what head_rows() has, but no tied head.
std::vector<StoredTensor> shard_tensors(const ModelConfig& config, int64_t first, int64_t end);

/// Shape of every tensor in the config's checkpoint, by name.
std::map<std::string, std::vector<int64_t>> expected_shapes(const ModelConfig& config);

}  // namespace dotresize
