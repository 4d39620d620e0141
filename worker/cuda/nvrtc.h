#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace dotresize {

/// A CUDA C++ program that is compiled at run time for the machine's GPU.
struct CudaProgram {
  std::string name;         ///< name in error messages: "l1_cost.cu"
  std::string_view source;  ///< must outlive this object
  std::vector<std::pair<std::string, std::string_view>> headers = {};  ///< sources by #include name
  std::vector<std::string> options = {};  ///< such as "-DCOLUMNS_PER_THREAD=4"
};

struct CompiledProgram {
  std::string cubin;
  std::string log;  ///< assembler's report: registers, spills and shared memory of each kernel
};

/// Returns the architecture to compile for so that a GPU of this compute capability (90 for sm_90)
/// can run the code: the GPU's own, or if this NVRTC does not know it, the highest one below it of
/// the same major version whose code other GPUs can run. Throws std::runtime_error with the known
/// architectures if there is none.
int architecture_for(int capability);

/// Compiles for one architecture, 70 for sm_70. Needs no GPU and no driver. Throws
/// std::runtime_error with the program, the architecture and NVRTC's log.
CompiledProgram compile_cuda(const CudaProgram& program, int capability);

/// Version of NVRTC, such as "12.8".
std::string nvrtc_version();

/// Cache of compiled programs on disk, so that a program is compiled once per GPU architecture.
/// There is a file for each source (with headers and options), architecture and NVRTC version.
/// Several processes may share the directory; files appear whole.
struct CubinCache {
  std::filesystem::path directory;  ///< empty: nothing is cached

  /// Returns the program's cubin, compiled if it is not cached. An unwritable directory is not an
  /// error: the next process compiles again. Throws as compile_cuda does.
  std::string get(const CudaProgram& program, int capability) const;

  /// Path of the cubin's file.
  std::filesystem::path path_of(const CudaProgram& program, int capability) const;
};

/// Returns cuda/ in user_cache_dir(), or an empty path if that is empty.
std::filesystem::path default_cubin_directory();

// CUDA C++ sources of the kernels, embedded by the build. See the sources for what they compute.

std::string_view half2_cuh();  ///< half2.cuh, which l1_cost.cu includes
std::string_view l1_cost_cu();
std::string_view removal_cu();
std::string_view sinkhorn_cu();

/// The kernels of the l1 cost: l1_cost_float, l1_cost_half, mirror_upper_triangle.
CudaProgram l1_cost_program();

/// The kernels of a removal of features: removal_candidates, removal_step.
CudaProgram removal_program();

/// Largest number of a plan's columns that the Sinkhorn kernels support.
inline constexpr int64_t kMaxSinkhornColumns = 8192;

/// The kernels of a Sinkhorn iteration on `columns` columns: sinkhorn_rows, sinkhorn_columns.
CudaProgram sinkhorn_program(int64_t columns);

}  // namespace dotresize
