#pragma once

#include <filesystem>
#include <string>

#include "worker/cuda/nvrtc.h"

namespace dotresize {

/// Compiled programs on disk, so that a program is compiled once per GPU architecture: a file for
/// each source, with its headers and options, architecture and version of NVRTC. Any number of
/// processes may use one directory; files appear whole.
class CubinCache {
 public:
  /// An empty directory name: nothing is kept.
  explicit CubinCache(std::filesystem::path directory) : directory_(std::move(directory)) {}

  /// The program's cubin, compiled if the cache has none. A directory that cannot be written is
  /// no error: the next process compiles again. Throws as compile_cuda does.
  std::string get(const CudaProgram& program, int capability) const;

  /// The file of the cubin.
  std::filesystem::path path_of(const CudaProgram& program, int capability) const;

 private:
  std::filesystem::path directory_;
};

/// cuda/ in user_cache_dir(); empty if that is.
std::filesystem::path default_cubin_directory();

}  // namespace dotresize
