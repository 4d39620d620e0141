#pragma once

#include <ATen/core/Tensor.h>

#include <filesystem>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/files/input_file.h"
#include "job/checkpoint/checkpoint_table.h"
#include "job/checkpoint/safetensors_header.h"

namespace dotresize {

/// A memory-mapped safetensors file. Only the header is read until a tensor's elements are used.
/// Thread-safe. The file must not be truncated while it is mapped.
class SafetensorsFile {
 public:
  /// Throws InputError (see parse_safetensors_header).
  explicit SafetensorsFile(const std::filesystem::path& file_path)
      : SafetensorsFile(file_path, InputFile(file_path.string())) {}
  /// Returns the SHA-256 of the mapped bytes.
  std::string sha256() const;
  /// Returns a view of the mapping, which lives as long as the tensor. Copies only BOOL, and data
  /// at an address that is not aligned for the dtype. Throws InputError for a missing name or a
  /// dtype other than F64, F32, F16, BF16, I64, I32, I16, I8, U32, U16, U8, BOOL. The mapping is
  /// private (copy-on-write).
  at::Tensor tensor(const std::string& name) const;
  /// The same for a tensor, or a part of one, at a place in this file.
  at::Tensor tensor(const TensorPlace& place) const;
  /// Starts to read the elements from disk, without waiting for them.
  void read_ahead(const TensorPlace& place) const;
  /// Frees the memory of a view of the mapping; it is read again on the next use. Does nothing for
  /// any other tensor.
  void release(const at::Tensor& view) const;

  const std::filesystem::path path;
  const SafetensorsHeader header;
  const FileStamp stamp;  ///< stamp of the mapped file; differs if the file was changed

 private:
  SafetensorsFile(const std::filesystem::path& file_path, const InputFile& file);

  uint64_t size_;
  std::shared_ptr<char> mapping_;  ///< all bytes of the file
};

/// The weights of a Hugging Face directory (find_checkpoint_files). Maps every file at once, and
/// reads only the tensors that are used. Thread-safe.
class CheckpointReader {
 public:
  /// Reads the files as they are (table_as_stored). Throws InputError if there are none, a shard is
  /// missing, or the index and the shards' headers disagree.
  explicit CheckpointReader(const std::filesystem::path& model_dir);
  /// Reads a model as transformers does (table_of_model). Takes tensors from the safetensors files
  /// `replacements` instead of the directory, and ignores their tensors that the directory does not
  /// have. Throws InputError as read_source_model() does.
  CheckpointReader(const std::filesystem::path& model_dir, const ModelConfig& config,
                   const std::vector<std::filesystem::path>& replacements = {});
  CheckpointReader(CheckpointReader&&) = default;
  CheckpointReader& operator=(CheckpointReader&&) = default;

  bool has(const std::string& name) const { return tensors_.contains(name); }
  /// A wrapper's tensors beside its text part, by their names in the files.
  const std::map<std::string, TensorPlace>& others() const { return others_; }
  /// Returns the dtype as in the file. Throws InputError for a missing tensor.
  const std::string& dtype(const std::string& name) const { return tensor_named(name).place.dtype; }
  /// Tensor names, sorted.
  std::vector<std::string> names() const;
  /// Returns the stored shape. Throws InputError for a missing tensor.
  std::vector<int64_t> shape(const std::string& name) const;
  /// Returns a view of the mapped file, checked for a floating dtype and exactly this shape; of a
  /// quantised weight a copy in bfloat16. The view of a transposed one is not contiguous. Throws
  /// InputError naming tensor, file, found and expected, and for scales that are not finite.
  at::Tensor get(const std::string& name, at::IntArrayRef expected_shape) const;
  /// "FILE: tensor 'NAME'", by its name in the file: begins an error about the tensor's values.
  std::string in_file(const std::string& name) const;
  /// Throws what get() throws for name, shape and dtype; reads no values.
  void check(const std::string& name, at::IntArrayRef expected_shape) const;
  /// Returns a copy of these rows (int64 [n]) of the tensor that get() returns, and frees the
  /// memory of that one.
  at::Tensor rows(const std::string& name, at::IntArrayRef expected_shape,
                  const at::Tensor& rows) const;
  /// Starts to read the tensor from disk, without waiting for it. Throws InputError if it is
  /// missing or has another shape.
  void read_ahead(const std::string& name, at::IntArrayRef expected_shape) const;
  /// Frees the memory of a view that get() returned. The system's file cache keeps it. In-place
  /// changes of its elements are lost.
  void release(const std::string& name, const at::Tensor& view) const {
    tensor_named(name).file->release(view);
  }
  /// Sorted safetensors files of the checkpoint, for fingerprints and sizes; without replacements.
  std::vector<std::filesystem::path> files() const;
  /// Stamps of files(), by file name, from when they were opened.
  std::map<std::string, FileStamp> stamps() const;

 private:
  struct MappedTensor {
    const SafetensorsFile* file;
    TensorPlace place;
  };

  /// Maps the files, and returns their headers.
  std::map<std::string, SafetensorsHeader> map_files(const CheckpointFiles& files);
  void add_tensors(CheckpointTable table);
  const MappedTensor& tensor_named(const std::string& name) const;
  at::Tensor dequantised(const MappedTensor& tensor) const;
  /// Returns a weight whose bytes hold two numbers of 4 bits.
  at::Tensor unpacked(const MappedTensor& tensor) const;
  /// Returns the tensor of this name if it has this shape.
  const MappedTensor& tensor_with(const std::string& name, at::IntArrayRef shape) const;

  std::filesystem::path dir_;
  std::map<std::string, SafetensorsFile> files_;  ///< mapped files by name
  std::list<SafetensorsFile> replacements_;
  std::map<std::string, MappedTensor> tensors_;  ///< by name
  std::map<std::string, TensorPlace> others_;
};

}  // namespace dotresize
