#include "worker/kernels/mkl_dispatch.h"

#include <ATen/Context.h>
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <filesystem>

namespace {

constexpr char kName[] = "mkl_serv_intel_cpu_true";

/// The file that defines a symbol.
std::filesystem::path file_of(const void* symbol) {
  Dl_info info{};
  return symbol != nullptr && dladdr(symbol, &info) != 0 ? info.dli_fname : "";
}

TEST(MklDispatch, LibtorchFindsTheProgramsAnswer) {
  if (!at::hasMKL()) GTEST_SKIP() << "this libtorch has no MKL";
  const void* const found = dlsym(RTLD_DEFAULT, kName);
  EXPECT_EQ(std::filesystem::canonical(file_of(found)),
            std::filesystem::canonical("/proc/self/exe"));
  // MKL's own function has the same name and can be seen: else MKL would not ask for ours.
  EXPECT_EQ(file_of(dlsym(RTLD_NEXT, kName)).filename(), "libtorch_cpu.so");
}

TEST(MklDispatch, ProcessorsWithAvx512HaveItsKernels) {
  const bool expected = __builtin_cpu_is("intel") || __builtin_cpu_supports("avx512f");
  EXPECT_EQ(mkl_serv_intel_cpu_true() != 0, expected);
}

}  // namespace
