#pragma once

#include <ATen/core/Tensor.h>

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "worker/checkpoint/safetensors_header.h"

namespace dotresize {

/// One memory-mapped safetensors file.
class SafetensorsFile {
 public:
  explicit SafetensorsFile(const std::filesystem::path& path);
  const SafetensorsHeader& header() const;
  /// A view of the mapping (no copy; the mapping lives as long as the tensor). Throws InputError
  /// for a name that is not there or a dtype other than F64, F32, F16, BF16, I64, I32, I16, I8, U8,
  /// BOOL. The mapping is private (copy-on-write).
  at::Tensor tensor(const std::string& name) const;

 private:
  struct Mapping;
  std::shared_ptr<const Mapping> mapping_;
};

/// The weights of a Hugging Face directory: model.safetensors, or model.safetensors.index.json with
/// its shards. Opens shards when one of their tensors is first asked for, and reads only what is
/// asked for. Thread-compatible.
class CheckpointReader {
 public:
  /// Throws InputError where there is neither file, the index is malformed, a shard name leaves the
  /// directory, a shard is missing, or the index and the shards' headers disagree.
  explicit CheckpointReader(const std::filesystem::path& model_dir);

  bool has(const std::string& name) const;
  std::vector<std::string> names() const;
  /// The shape as stored. Throws InputError for a missing tensor.
  std::vector<int64_t> shape(const std::string& name) const;
  /// A view of the mapped file, checked: floating dtype and exactly this shape. Throws InputError
  /// naming tensor, file, found and expected.
  at::Tensor get(const std::string& name, at::IntArrayRef expected_shape) const;
  /// The files behind the checkpoint, sorted, for fingerprints and sizes.
  std::vector<std::filesystem::path> files() const;

 private:
  const SafetensorsFile& file(const std::string& name) const;

  std::filesystem::path dir_;
  std::map<std::string, std::string> shard_of_;  ///< tensor name to file name
  mutable std::map<std::string, std::unique_ptr<SafetensorsFile>> open_;
};

}  // namespace dotresize
