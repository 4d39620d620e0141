#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "job/checkpoint/checkpoint_files.h"
#include "job/checkpoint/safetensors_header.h"
#include "job/model/model_config.h"
#include "job/model/wrappers.h"

namespace dotresize {

struct QuantisedPlace;

/// Place of a tensor's elements.
struct TensorPlace {
  std::string file;         ///< name in the model directory
  std::string stored_name;  ///< name in the file; a fused tensor has several places
  std::string dtype;        ///< as in the file: "F32", "BF16", ...
  std::vector<int64_t> shape;
  uint64_t begin = 0;  ///< bytes from the start of the file
  uint64_t end = 0;
  /// Set for a weight of 8 or 4 bits. `dtype` is then the one that it is read as.
  std::shared_ptr<const QuantisedPlace> quantised = {};
  bool transposed = false;  ///< stored with the last two dimensions of `shape` exchanged

  std::vector<int64_t> stored_shape() const;
  uint64_t bytes() const { return end - begin; }
};

/// Weight of 8 bits [rows, columns]: each block of it is multiplied by one scale. Or one of 4 bits
/// [..., columns]: blocks of each row are multiplied by powers of two.
struct QuantisedPlace {
  std::string dtype;  ///< as in the file: "F8_E4M3", "I8", "U8" for two numbers of 4 bits
  TensorPlace scales;
  int64_t block_rows = 0;
  int64_t block_columns = 0;
  bool packed = false;  ///< each byte holds two numbers of 4 bits
};

/// A model's tensors in its files.
struct CheckpointTable {
  /// By the names of job/model/tensor_table.h.
  std::map<std::string, TensorPlace> tensors = {};
  /// Tensors that the index lists and no file holds.
  std::vector<std::string> absent = {};
  /// By their stored names: a wrapper's tensors beside its text part.
  std::map<std::string, TensorPlace> others = {};
  /// Stored names of layers that predict further tokens.
  std::vector<std::string> further = {};
  /// Layout of a wrapper's names; null if the model is none.
  const WrapperNames* wrapper_names = nullptr;
};

/// Returns true for the dtypes that weights may have: F64, F32, F16, BF16.
bool is_weight_dtype(const std::string& dtype);

/// "[2, 3]".
std::string shape_text(const std::vector<int64_t>& shape);

/// Makes the table of the files' headers as they are. Throws InputError if index and headers
/// disagree in any way. `index_path`: for errors.
CheckpointTable table_as_stored(const CheckpointFiles& files,
                                const std::map<std::string, SafetensorsHeader>& headers,
                                const std::filesystem::path& dir);

/// Makes the table of a model as transformers reads it: names without `model.` get it; experts that
/// are stored as one become one tensor each; a tied model's head stands for an embedding that is
/// not stored; the index need not list all tensors of its files; quantised weights have their
/// scales; the text part of a wrapper gets the names of a model of text; layers that predict
/// further tokens are left out. Throws InputError if the index places a tensor in another file than
/// one that holds it, or a wrapper's text part is stored in two layouts or not at all.
CheckpointTable table_of_model(const CheckpointFiles& files,
                               const std::map<std::string, SafetensorsHeader>& headers,
                               const std::filesystem::path& dir, const ModelConfig& config);

/// Gives each weight of 8 or 4 bits its scales, which are stored beside it, and takes these out of
/// the table, with the scales of activations and caches. Weights of other dtypes stay as they are:
/// the files decide which ones are quantised. Throws InputError for a weight without scales, with
/// two kinds of them, with zero points, or with scales that do not fit it; and for quantised
/// weights beside the text part of a wrapper, which an output would copy.
void take_scales(const std::filesystem::path& dir, const Quantisation& quantisation,
                 CheckpointTable& table);

/// Throws InputError unless the table has every tensor of the config's checkpoint in its shape and
/// in float32, float16 or bfloat16 (required_tensors.cpp). The error says what is stored instead,
/// and what would help.
void require_tensors(const CheckpointTable& table, const std::filesystem::path& dir,
                     const ModelConfig& config);

}  // namespace dotresize
