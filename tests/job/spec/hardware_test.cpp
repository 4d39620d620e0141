#include "job/plan/estimate/hardware.h"

#include <gmock/gmock.h>

#include <filesystem>

#include "base/errors.h"
#include "job/plan/resolve/resolve_job.h"
#include "tests/job/model/test_configs.h"
#include "tests/job/spec/hardware_text.h"

namespace dotresize {
namespace {

using testing::HasSubstr;

std::string error_of_hardware(const std::string& text) {
  try {
    parse_hardware(text, "hw.yaml");
  } catch (const InputError& error) {
    return error.what();
  }
  return "accepted";
}

struct BadHardware {
  std::string name;
  std::string text;
  std::string message;  ///< part of the error message, after "hw.yaml:"
};

void PrintTo(const BadHardware& hardware, std::ostream* out) { *out << hardware.name; }

std::string cpu_with(const std::string& from, const std::string& to) {
  return with(kPlainCpu, from, to);
}

std::string gpu_with(const std::string& from, const std::string& to) {
  return with(kPlainGpu, from, to);
}

std::vector<BadHardware> bad_hardware() {
  return {
      {"Empty", "", "1: is empty"},
      {"RootIsAList", "- device: cpu\n", "1: must be a map"},
      {"SyntaxError", cpu_with("cpu", "'cpu"), "is not valid YAML"},
      {"TwoDocuments", std::string(kPlainCpu) + "---\ndevice: cpu\n", "a second YAML document"},
      {"NestingBomb", std::string(100000, '['), "1: is nested too deeply"},
      {"NotUtf8", "device: \xff", "1: is not UTF-8 text"},
      {"MisspeltKey", cpu_with("eigen", "eigne"), "9: eigne: unknown key, did you mean 'eigen'?"},
      {"MisspeltRate", cpu_with("  float64: 1e9", "  floaat64: 1e9"),
       "4: gemm.floaat64: unknown key, did you mean 'float64'?"},
      {"ForeignKey", std::string(kPlainCpu) + "price: 1\n", "18: price: unknown key; "},
      {"KeyTwice", std::string(kPlainCpu) + "qr: 2\n", "18: qr: is given twice, first in line 10"},
      {"UnknownDevice", cpu_with("device: cpu", "device: tpu"), "1: device: 'tpu' is not one of"},
      {"Zero", cpu_with("qr: 1e9", "qr: 0"), "10: qr: must be greater than 0"},
      {"ZeroCores", cpu_with("cores: 1", "cores: 0"), "2: cores: must be greater than 0"},
      {"ZeroRanks", std::string(kPlainCpu) + "ranks_per_host: 0\n",
       "18: ranks_per_host: must be greater than 0"},
      {"NegativeCache", cpu_with("  write: 1e9", "  write: 1e9\n  cache: -1"),
       "17: disk.cache: must be greater than 0"},
      {"Negative", cpu_with("hash: 1e9", "hash: -1e9"), "17: hash: must be greater than 0"},
      {"Infinite", cpu_with("qr: 1e9", "qr: inf"), "10: qr: 'inf' is not a finite number"},
      {"Overflow", cpu_with("qr: 1e9", "qr: 1e999"), "10: qr: '1e999' is not a finite number"},
      {"NotANumber", cpu_with("qr: 1e9", "qr: fast"), "10: qr: 'fast' is not a finite number"},
      {"Unit", cpu_with("qr: 1e9", "qr: 1 GB/s"), "10: qr: '1 GB/s' is not a finite number"},
      {"Nan", cpu_with("qr: 1e9", "qr: nan"), "10: qr: 'nan' is not a finite number"},
      {"Section", cpu_with("qr: 1e9", "qr: {float64: 1}"), "10: qr: must be one value, not a map"},
      {"NoSection", cpu_with("gemm:\n  float64: 1e9\n  float32: 1e9", "gemm: 1e9"),
       "3: gemm: must be a section with the keys float64, float32, float16, bfloat16"},
      {"NoDevice", cpu_with("device: cpu\n", ""), "device: is missing"},
      {"NoRate", cpu_with("qr: 1e9\n", ""), "qr: is missing"},
      {"NullRate", cpu_with("qr: 1e9", "qr:"), "10: qr: is missing"},
      {"NoRateOfASection", cpu_with("  read: 1e9\n", ""), "14: disk.read: is missing"},
      {"NoSectionAtAll", gpu_with("host:\n  memory: 1e9\n  to_device: 1e9\n", ""),
       "host.to_device: is missing, with device: cuda"},
      {"NoCapability", gpu_with("capability: 70\n", ""),
       "capability: is missing, with device: cuda"},
      {"CpuWithGpuMemory", cpu_with("cores: 1", "cores: 1\ncapacity: {device: 1e9}"),
       "3: capacity.device: needs device: cuda"},
      {"CpuWithCapability", cpu_with("cores: 1", "cores: 1\ncapability: 70"),
       "3: capability: needs device: cuda"},
  };
}

class BadHardwareFile : public testing::TestWithParam<BadHardware> {};

TEST_P(BadHardwareFile, IsRefusedByLineAndKey) {
  EXPECT_THAT(error_of_hardware(GetParam().text), testing::StartsWith("hw.yaml:"));
  EXPECT_THAT(error_of_hardware(GetParam().text), HasSubstr(GetParam().message));
}

INSTANTIATE_TEST_SUITE_P(Hardware, BadHardwareFile, testing::ValuesIn(bad_hardware()),
                         [](const auto& bad) { return bad.param.name; });

TEST(Hardware, EveryFaultIsTold) {
  const std::string error = error_of_hardware(cpu_with("eigen: 1e9\nqr: 1e9", "eigen: 0"));
  EXPECT_THAT(error, HasSubstr("hw.yaml:9: eigen: must be greater than 0"));
  EXPECT_THAT(error, HasSubstr("qr: is missing"));
}

TEST(Hardware, ExamplesAreAccepted) {
  int files = 0;
  for (const auto& entry :
       std::filesystem::directory_iterator(DOTRESIZE_SOURCE_DIR "/examples/hardware")) {
    EXPECT_NO_THROW(read_hardware(entry.path())) << entry.path();
    ++files;
  }
  EXPECT_EQ(files, 5);
}

TEST(Hardware, MissingAndHugeFilesAreRefused) {
  const TemporaryDirectory dir;
  EXPECT_THROW(read_hardware(dir.path() / "missing.yaml"), InputError);
  EXPECT_THROW(read_hardware(dir.path()), InputError);
}

ResolvedJob gpu_job(Dtype compute) {
  ResolvedJob job = small_job(small_llama(), 2);
  job.resources.device = DeviceKind::kCuda;
  job.resources.compute_dtype = compute;
  return job;
}

TEST(RankRates, RanksOfAHostShareACpuAndItsDisk) {
  v1::Hardware hardware = parse_hardware(kPlainCpu, "hw.yaml");
  EXPECT_DOUBLE_EQ(rank_rates(hardware, small_job(small_llama(), 4)).eigen, 0.25e9);
  EXPECT_DOUBLE_EQ(rank_rates(hardware, small_job(small_llama(), 4)).disk_read, 0.25e9);
  hardware.set_ranks_per_host(2);
  EXPECT_DOUBLE_EQ(rank_rates(hardware, small_job(small_llama(), 4)).eigen, 0.5e9);
  EXPECT_DOUBLE_EQ(rank_rates(hardware, small_job(small_llama(), 1)).eigen, 1e9);
}

TEST(RankRates, OneCoreHashesForEachRankIfThereAreEnough) {
  v1::Hardware hardware = parse_hardware(kPlainCpu, "hw.yaml");
  hardware.set_cores(2);
  EXPECT_DOUBLE_EQ(rank_rates(hardware, small_job(small_llama(), 1)).hash, 1e9);
  EXPECT_DOUBLE_EQ(rank_rates(hardware, small_job(small_llama(), 2)).hash, 1e9);
  EXPECT_DOUBLE_EQ(rank_rates(hardware, small_job(small_llama(), 4)).hash, 0.5e9);
}

TEST(RankRates, EachRankHasAGpuOfItsOwn) {
  const v1::Hardware hardware = parse_hardware(kPlainGpu, "hw.yaml");
  const RankRates rates = rank_rates(hardware, gpu_job(Dtype::kFloat16));
  EXPECT_DOUBLE_EQ(rates.eigen, 1e9);
  EXPECT_DOUBLE_EQ(rates.to_device, 1e9);
  EXPECT_DOUBLE_EQ(rates.disk_read, 0.5e9);
}

TEST(RankRates, WhatTheJobNeedsAndTheFileLacksIsNamed) {
  const auto refusal = [](const v1::Hardware& hardware, const ResolvedJob& job) -> std::string {
    try {
      rank_rates(hardware, job);
    } catch (const InputError& error) {
      return error.what();
    }
    return "accepted";
  };
  v1::Hardware gpu = parse_hardware(kPlainGpu, "hw.yaml");
  EXPECT_EQ(refusal(gpu, gpu_job(Dtype::kBFloat16)),
            "hardware file: gemm.bfloat16: is missing, and the job computes in bfloat16");
  gpu.clear_link();
  EXPECT_EQ(refusal(gpu, gpu_job(Dtype::kFloat16)),
            "hardware file: link: is missing, and the job has several ranks");
  EXPECT_EQ(refusal(gpu, small_job(small_llama(), 2)),
            "hardware file: device: the job computes on cpu, the file is for cuda");
  v1::Hardware cpu = parse_hardware(kPlainCpu, "hw.yaml");
  cpu.clear_link();
  EXPECT_EQ(refusal(cpu, small_job(small_llama(), 1)), "accepted");
}

TEST(LaunchFactsOfHardware, AreBudgetsIfTheCapacityIsKnown) {
  v1::Hardware hardware = parse_hardware(kPlainGpu, "hw.yaml");
  EXPECT_FALSE(launch_facts(hardware, 3).memory || launch_facts(hardware, 3).device_memory);
  hardware.mutable_capacity()->set_host(12e9);
  hardware.mutable_capacity()->set_device(5e9);
  EXPECT_EQ(launch_facts(hardware, 3).memory, 4'000'000'000);
  EXPECT_EQ(launch_facts(hardware, 3).device_memory, 5'000'000'000);
  hardware.set_ranks_per_host(2);
  EXPECT_EQ(launch_facts(hardware, 3).memory, 6'000'000'000);
}

TEST(LaunchFactsOfHardware, AreThoseOfItsDevice) {
  const LaunchFacts gpu = launch_facts(parse_hardware(kPlainGpu, "hw.yaml"), 3);
  EXPECT_EQ(gpu.ranks, 3);
  EXPECT_EQ(gpu.devices.device, DeviceKind::kCuda);
  EXPECT_EQ(gpu.devices.least_capability, 70);
  EXPECT_EQ(launch_facts(parse_hardware(kPlainCpu, "hw.yaml"), 3).devices.device, DeviceKind::kCpu);
}

}  // namespace
}  // namespace dotresize
