// Choosing a device, with the CUDA module as it is on this machine: with a GPU or without.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "job/errors.h"
#include "worker/device/choose_device.h"
#include "worker/kernels/l1_cost.h"

namespace dotresize {
namespace {

using ::testing::HasSubstr;

TEST(CudaModule, LoadsWithOrWithoutAGpu) {
  at::set_num_threads(1);  // the worker, too, has used the CPU before it opens the module
  EXPECT_EQ(at::ones({3}).sum().item<float>(), 3.0f);
  CudaModule& module = open_cuda_module();
  EXPECT_EQ(&open_cuda_module(), &module);
  EXPECT_EQ(module.device_count() > 0, why_no_gpu().empty());
  EXPECT_EQ(cuda_kernels().add_l1_cost, module.kernels().add_l1_cost);
}

/// Its CUDA half is found by libtorch although it came after the start.
TEST(CudaModule, TellsLibtorch) {
  open_cuda_module();
  EXPECT_EQ(at::globalContext().hasCUDA(), why_no_gpu().empty());
  EXPECT_TRUE(at::globalContext().hasCuSOLVER());
}

TEST(ChooseDevice, CpuIsTheCpu) {
  SelfCommunicator self;
  EXPECT_EQ(choose_device(DeviceChoice::kCpu, self, 0).device, at::Device(at::kCPU));
}

TEST(ChooseDevice, AutoTakesAGpuWhereThereIsOne) {
  SelfCommunicator self;
  const ChosenDevice chosen = choose_device(DeviceChoice::kAuto, self, 0);
  EXPECT_EQ(chosen.device.is_cuda(), why_no_gpu().empty());
  EXPECT_EQ(chosen.cuda != nullptr, chosen.device.is_cuda());
  EXPECT_EQ(chosen.name.empty(), chosen.device.is_cpu());
}

TEST(ChooseDevice, CudaWithoutAGpuIsRefusedByName) {
  if (why_no_gpu().empty()) GTEST_SKIP() << "there is a GPU";
  SelfCommunicator self;
  try {
    choose_device(DeviceChoice::kCuda, self, 0);
    FAIL() << "there is no GPU";
  } catch (const InputError& error) {
    EXPECT_THAT(error.what(),
                HasSubstr("resources.device: cuda is not possible: rank 0: " + why_no_gpu()));
  }
}

}  // namespace
}  // namespace dotresize
