#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace dotresize {

/// A CUDA C++ program that is compiled at run time for the GPU of the machine.
struct CudaProgram {
  std::string name;         ///< for error messages: "l1_cost.cu"
  std::string_view source;  ///< outlives the program
  std::vector<std::pair<std::string, std::string_view>> headers = {};  ///< by the name of #include
  std::vector<std::string> options = {};  ///< of its own: "-DCOLUMNS_PER_THREAD=4"
};

struct CompiledProgram {
  std::string cubin;
  std::string log;  ///< the assembler's report: registers, spills and shared memory of each kernel
};

/// The architecture to compile for so that a GPU of this compute capability (90 for sm_90) can run
/// it: its own, or if this NVRTC does not know it, the highest below it of the same major version
/// whose code other GPUs can run. Throws std::runtime_error with the architectures that it knows if
/// there is none.
int architecture_for(int capability);

/// Compiles for one architecture, 70 for sm_70. Needs no GPU and no driver. Throws
/// std::runtime_error with the program, the architecture and NVRTC's log.
CompiledProgram compile_cuda(const CudaProgram& program, int capability);

/// "12.8".
std::string nvrtc_version();

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
