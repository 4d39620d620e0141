#pragma once

#include <ATen/core/Tensor.h>

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/input_file.h"
#include "worker/checkpoint/safetensors_header.h"

namespace dotresize {

/// One memory-mapped safetensors file. Nothing but the header is read until a tensor's elements are
/// used. Thread-safe. The file must not be truncated while it is mapped.
class SafetensorsFile {
 public:
  /// Throws InputError (see parse_safetensors_header).
  explicit SafetensorsFile(const std::filesystem::path& path);
  const SafetensorsHeader& header() const;
  const std::filesystem::path& path() const;
  /// What tells this file from a changed one.
  const FileStamp& stamp() const;
  /// SHA-256 of what is mapped.
  std::string sha256() const;
  /// A view of the mapping, which lives as long as the tensor; a copy only if the file places
  /// the data at an address that its dtype cannot be loaded from, and for BOOL. Throws InputError
  /// for a name that is not there or a dtype other than F64, F32, F16, BF16, I64, I32, I16, I8,
  /// U32, U16, U8, BOOL. The mapping is private (copy-on-write).
  at::Tensor tensor(const std::string& name) const;
  /// Starts to read the tensor's elements from the disk, and does not wait for them.
  void read_ahead(const std::string& name) const;
  /// Gives the memory of a view of the mapping back: it is read again if it is used again. Does
  /// nothing if the tensor is no such view.
  void release(const at::Tensor& view) const;

 private:
  struct Mapping;
  std::shared_ptr<const Mapping> mapping_;
};

/// The weights of a Hugging Face directory: model.safetensors, or else model.safetensors.index.json
/// with its shards. Maps every file at once, and reads only the tensors that are used. Thread-safe.
class CheckpointReader {
 public:
  /// Throws InputError if there is neither file, the index is malformed, a shard name leaves the
  /// directory, a shard is missing, or the index and the shards' headers disagree.
  explicit CheckpointReader(const std::filesystem::path& model_dir);
  /// The same with tensors of these safetensors files in place of those of their names; others that
  /// the files hold are not read. Throws InputError for a file that is none.
  CheckpointReader(const std::filesystem::path& model_dir,
                   const std::vector<std::filesystem::path>& replacements);
  CheckpointReader(CheckpointReader&&) = default;
  CheckpointReader& operator=(CheckpointReader&&) = default;

  bool has(const std::string& name) const;
  /// Sorted.
  std::vector<std::string> names() const;
  /// The shape as stored. Throws InputError for a missing tensor.
  std::vector<int64_t> shape(const std::string& name) const;
  /// A view of the mapped file, checked: floating dtype and exactly this shape. Throws InputError
  /// naming tensor, file, found and expected.
  at::Tensor get(const std::string& name, at::IntArrayRef expected_shape) const;
  /// After get(): starts to read the tensor from the disk, and does not wait for it.
  void read_ahead(const std::string& name) const { file_of(name).read_ahead(name); }
  /// What was read of a view that get() returned leaves this process's memory, though not the
  /// system's file cache. Elements that were changed in place are lost.
  void release(const std::string& name, const at::Tensor& view) const {
    file_of(name).release(view);
  }
  /// The safetensors files behind the checkpoint, sorted, for fingerprints and sizes; without
  /// replacements.
  std::vector<std::filesystem::path> files() const;
  /// Those of the files that are open, by file name.
  std::map<std::string, FileStamp> stamps() const;

 private:
  const SafetensorsFile& file_of(const std::string& name) const;

  std::filesystem::path dir_;
  std::map<std::string, SafetensorsFile> files_;  ///< by file name
  std::vector<SafetensorsFile> replacements_;
  std::map<std::string, const SafetensorsFile*> owner_;  ///< by tensor name
};

}  // namespace dotresize
