// Compiles every kernel for every architecture. NVRTC needs no GPU.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <regex>
#include <stdexcept>

#include "base/files/cache_files.h"
#include "tests/temporary_directory.h"
#include "worker/cuda/nvrtc.h"

namespace dotresize {
namespace {

using ::testing::HasSubstr;

/// The assembler's report on one kernel.
struct Usage {
  int registers = 0;
  int spilled_bytes = 0;
};

std::map<std::string, Usage> usage_of(const std::string& log) {
  static const std::regex entry("Compiling entry function '(\\w+)'");
  static const std::regex spills("(\\d+) bytes spill stores, (\\d+) bytes spill loads");
  static const std::regex registers("Used (\\d+) registers");
  std::map<std::string, Usage> kernels;
  std::istringstream lines(log);
  std::string kernel;
  std::smatch match;
  for (std::string line; std::getline(lines, line);) {
    if (std::regex_search(line, match, entry)) kernel = match[1];
    if (std::regex_search(line, match, spills)) {
      kernels[kernel].spilled_bytes = std::stoi(match[1]) + std::stoi(match[2]);
    }
    if (std::regex_search(line, match, registers)) {
      kernels[kernel].registers = std::stoi(match[1]);
    }
  }
  return kernels;
}

class CudaKernels : public testing::TestWithParam<int> {};

/// Registers per thread: the 65536 of a multiprocessor divided by the threads that should be
/// resident. These are 2 blocks of 256 for the l1 costs, 1 block of 512 for sinkhorn_rows and
/// 4 blocks of 128 for a removal. The other kernels get what their occupancy needs.
const std::map<std::string, int> kRegisterBudget = {
    {"l1_cost_float", 128},      {"l1_cost_half", 128}, {"mirror_upper_triangle", 40},
    {"removal_candidates", 128}, {"removal_step", 128}, {"sinkhorn_rows", 128},
    {"sinkhorn_columns", 40}};

void expect_within_budget(const CudaProgram& program, int capability, size_t kernels) {
  const CompiledProgram compiled = compile_cuda(program, capability);
  EXPECT_EQ(compiled.cubin.substr(1, 3), "ELF");
  const std::map<std::string, Usage> usage = usage_of(compiled.log);
  EXPECT_EQ(usage.size(), kernels) << compiled.log;
  for (const auto& [kernel, used] : usage) {
    EXPECT_EQ(used.spilled_bytes, 0) << kernel << "\n" << compiled.log;
    EXPECT_GT(used.registers, 0) << kernel;
    EXPECT_LE(used.registers, kRegisterBudget.at(kernel)) << kernel << "\n" << compiled.log;
  }
}

TEST_P(CudaKernels, FitTheRegisters) {
  expect_within_budget(l1_cost_program(), GetParam(), 3);
  expect_within_budget(removal_program(), GetParam(), 2);
  for (const int64_t columns : {int64_t{1}, int64_t{3000}, kMaxSinkhornColumns}) {
    expect_within_budget(sinkhorn_program(columns), GetParam(), 2);
  }
}

INSTANTIATE_TEST_SUITE_P(Architectures, CudaKernels, testing::Values(70, 80, 90));

std::string error_of(const CudaProgram& program, int capability) {
  try {
    compile_cuda(program, capability);
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return "";
}

TEST(CompileCuda, ErrorNamesProgramArchitectureAndLine) {
  const std::string error =
      error_of({.name = "broken.cu", .source = "__global__ void f() { nonsense(); }"}, 80);
  EXPECT_THAT(error, HasSubstr("broken.cu for sm_80"));
  EXPECT_THAT(error, HasSubstr("broken.cu(1): error: identifier \"nonsense\""));
}

TEST(ArchitectureFor, IsTheGpusOwnOrTheHighestBelowItOfItsMajorVersion) {
  for (const int known : {70, 80, 87, 90}) EXPECT_EQ(architecture_for(known), known);
  EXPECT_EQ(architecture_for(88), 86);  // 87 is for Jetson modules
  EXPECT_EQ(architecture_for(99), 90);
  const int newer = architecture_for(103);
  EXPECT_THAT(newer, testing::AnyOf(100, 103));
  EXPECT_EQ(compile_cuda(l1_cost_program(), newer).cubin.substr(1, 3), "ELF");
}

TEST(ArchitectureFor, NamesThoseThatThereAre) {
  try {
    architecture_for(35);
    FAIL() << "no NVRTC of today knows sm_35";
  } catch (const std::runtime_error& error) {
    EXPECT_THAT(error.what(), HasSubstr("cannot compile for sm_35, only for"));
    EXPECT_THAT(error.what(), HasSubstr(" sm_90"));
  }
}

constexpr char kSmall[] = "extern \"C\" __global__ void f(int* x) { *x = VALUE; }";

CudaProgram small_program(const std::string& value) {
  return {.name = "small.cu", .source = kSmall, .options = {"-DVALUE=" + value}};
}

TEST(CubinCache, CompilesOnce) {
  const TemporaryDirectory directory;
  const CubinCache cache{directory.path() / "new"};
  const std::string cubin = cache.get(small_program("1"), 80);
  EXPECT_EQ(cubin, compile_cuda(small_program("1"), 80).cubin);
  const std::filesystem::path file = cache.path_of(small_program("1"), 80);
  std::ofstream(file) << "from the disk";
  EXPECT_EQ(cache.get(small_program("1"), 80), cubin) << "it does not match its hash";
  std::ofstream(file) << "from the disk";
  seal_file(file);
  EXPECT_EQ(cache.get(small_program("1"), 80), "from the disk");
}

TEST(CubinCache, KeepsProgramsApart) {
  const CubinCache cache{"somewhere"};
  const auto path = cache.path_of(small_program("1"), 80);
  EXPECT_NE(path, cache.path_of(small_program("2"), 80));
  EXPECT_NE(path, cache.path_of(small_program("1"), 90));
  CudaProgram with_header = small_program("1");
  with_header.headers = {{"a.h", "text"}};
  EXPECT_NE(path, cache.path_of(with_header, 80));
}

TEST(CubinCache, WorksWhereNothingCanBeWritten) {
  const CubinCache cache{"/proc/no/such/directory"};
  EXPECT_EQ(cache.get(small_program("1"), 80), compile_cuda(small_program("1"), 80).cubin);
}

}  // namespace
}  // namespace dotresize
