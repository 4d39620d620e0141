#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "job/model/model_config.h"

namespace dotresize {

// Table of a model's tensors: their names and shapes in a checkpoint, and the junctions that they
// read and write (docs/method.md, "Folding"). Sizes, loading, writing, broadcasts and verification
// are all derived from this table.

enum class TensorRole {
  kEmbedding,
  kEmbeddingProjection,  ///< between a shared table and junction 0; compressed models only
  /// q, k, v; gate, up; or fused. Mixture: the router, gate and up of each expert and of the shared
  /// one, gate of the shared one
  kInProjWeight,
  kOutProjWeight,  ///< o; down; mixture: down of each expert and of the shared one
  kInProjBias,
  kOutProjBias,
  kChoiceBias,      ///< added to a router's scores; float32 also where other weights are narrower
  kHeadNorm,        ///< q_norm, k_norm
  kSinks,           ///< a score of each head without a key
  kDeltaNet,        ///< convolution, decay and norm of a DeltaNet, which nothing else has
  kNorm,            ///< before in_proj; in models without maps, dense ones included
  kPostNorm,        ///< behind out_proj
  kShortcut,        ///< on the skip path; compressed models only, like the next two
  kShortcutA,       ///< factor A of the low-rank part of a shortcut; it reads the stream
  kShortcutB,       ///< factor B; it writes the stream
  kFinalNorm,       ///< before the head, if its weight is not folded into the next matrix
  kHeadProjection,  ///< between the last junction and a shared table; compressed models only
  kHead,
};

/// Tensors of a sublayer besides its projections and head norms.
struct SublayerForm {
  bool norm = false;
  ShortcutForm shortcut = kIdentityShortcut;

  static const SublayerForm kDense;   ///< only a norm
  static const SublayerForm kFolded;  ///< only a shortcut, as one matrix
};

inline constexpr SublayerForm SublayerForm::kDense{.norm = true};
inline constexpr SublayerForm SublayerForm::kFolded{.shortcut = {}};

/// One dimension of a tensor: a constant, or the width of the junction that the sublayer reads
/// (k_in) or writes (k_out).
struct Extent {
  enum class Kind { kConstant, kIn, kOut };
  Kind kind = Kind::kConstant;
  int64_t constant = 0;
};

int64_t size_of(const Extent& extent, int64_t k_in, int64_t k_out);

/// Place of a tensor of one expert in the tensor that files hold in place of those of all experts:
/// of biases [experts, out], of matrices [experts, in, out].
struct TensorSlice {
  std::string whole;  ///< name of that tensor
  int64_t index = 0;
  int64_t count = 0;
};

/// One tensor with its widths left open, or one such tensor per expert.
struct TensorRow {
  TensorRole role;
  std::string_view block;   ///< "self_attn", "mlp", ...; empty: directly in the layer
  std::string_view module;  ///< "q_proj", ...
  Extent rows;
  std::optional<Extent> columns;  ///< absent: a vector
  bool per_expert = false;
  std::string_view parameter = {};  ///< empty: "weight", or as the role says
  bool convolution = false;         ///< the shape is [rows, 1, columns]
  bool stacked = false;             ///< the tensors of all experts are one in files
};

/// Returns a sublayer's rows in writing order, which is their order in files. Their texts live as
/// long as the program.
std::vector<TensorRow> sublayer_rows(const ModelConfig& config, int64_t sublayer,
                                     SublayerForm form);
/// Returns the embedding matrix, then its projection if it has one. They write junction 0.
std::vector<TensorRow> embedding_rows(const ModelConfig& config);
/// Returns the final norm and the head projection, if the model has them, then the head, also if it
/// is tied to the embedding. They read the last junction.
std::vector<TensorRow> head_rows(const ModelConfig& config);

/// Returns the sublayer's form in the config's checkpoint.
SublayerForm stored_form(const ModelConfig& config, int64_t sublayer);

/// Size of some tensors.
struct TensorsSize {
  int64_t parameters = 0;
  int64_t bytes = 0;  ///< in the dtype of each tensor

  TensorsSize operator+(const TensorsSize& other) const {
    return {parameters + other.parameters, bytes + other.bytes};
  }
  TensorsSize operator-(const TensorsSize& other) const {
    return {parameters - other.parameters, bytes - other.bytes};
  }
};

/// Size of the tensors, whose names begin with `prefix`, in these dtypes. Those that there are one
/// of per expert count `experts` times.
TensorsSize total_size(const std::vector<TensorRow>& rows, const std::string& prefix, int64_t k_in,
                       int64_t k_out, int64_t experts, const StoredDtypes& dtypes);

/// One tensor of a checkpoint.
struct StoredTensor {
  std::string name;
  std::vector<int64_t> shape;  ///< matrices and shortcuts are [out, in], as in nn.Linear
  TensorRole role;
  size_t index = 0;  ///< position among the tensors of its role in the sublayer
  std::optional<TensorSlice> slice = {};  ///< absent: files hold it by its name, in its shape

  /// Name and shape of the tensor in files that holds it.
  const std::string& name_in_files() const { return slice ? slice->whole : name; }
  std::vector<int64_t> shape_in_files() const;
};

/// Returns the sublayer's tensors in writing order.
std::vector<StoredTensor> sublayer_tensors(const ModelConfig& config, int64_t sublayer,
                                           SublayerForm form, int64_t k_in, int64_t k_out);
/// The same for the form and the widths in the config's checkpoint.
std::vector<StoredTensor> sublayer_tensors(const ModelConfig& config, int64_t sublayer);
StoredTensor embedding_tensor(const ModelConfig& config);
/// Tensors of embedding_rows() and head_rows().
std::vector<StoredTensor> embedding_tensors(const ModelConfig& config);
std::vector<StoredTensor> head_tensors(const ModelConfig& config);
/// Returns the tensor with the head's matrix: the embedding if they are tied.
StoredTensor head_matrix(const ModelConfig& config);
/// Returns the tensor of this role at the ends of the model; nullopt if it has none.
std::optional<StoredTensor> end_tensor(const ModelConfig& config, TensorRole role);

/// True for weights and biases of in_proj.
bool is_in_proj(const StoredTensor& stored);

/// Returns the tensors of sublayers [first, end) in the config's checkpoint, in writing order. The
/// embedding comes before sublayer 0. After the last sublayer come those of head_rows(), without a
/// tied head.
std::vector<StoredTensor> shard_tensors(const ModelConfig& config, int64_t first, int64_t end);

/// Returns the shape of every tensor in the files of the config's checkpoint, by name.
std::map<std::string, std::vector<int64_t>> expected_shapes(const ModelConfig& config);

/// Returns config.files.dtypes without names that are not those of the config's tensors.
StoredDtypes stored_dtypes(const ModelConfig& config);

/// Beginning of the names of a sublayer's tensors: "model.layers.3.".
std::string name_prefix(int64_t sublayer);

}  // namespace dotresize
