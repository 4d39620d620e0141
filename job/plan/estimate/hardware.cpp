#include "job/plan/estimate/hardware.h"

#include <google/protobuf/descriptor.h>

#include <algorithm>
#include <array>
#include <limits>
#include <string_view>
#include <vector>

#include "base/errors.h"
#include "base/files/input_file.h"
#include "job/plan/resolve/resolve_job.h"
#include "job/spec/yaml_file.h"

namespace dotresize {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

constexpr std::size_t kMaxHardwareFileBytes = std::size_t{1} << 16;

constexpr std::array<std::string_view, 14> kNeededByAll = {
    "device", "cores", "gemm.float64", "gemm.float32", "attention", "memory",     "l1_cost",
    "eigen",  "svd",   "qr",           "sinkhorn",     "disk.read", "disk.write", "hash"};
constexpr std::array<std::string_view, 1> kOptionalOfGpus = {"capacity.device"};
constexpr std::array<std::string_view, 3> kOfGpus = {"capability", "host.memory", "host.to_device"};

bool has_key(const Message& message, std::string_view key) {
  const std::size_t dot = key.find('.');
  const FieldDescriptor& field =
      *message.GetDescriptor()->FindFieldByName(std::string(key.substr(0, dot)));
  const google::protobuf::Reflection& reflection = *message.GetReflection();
  if (!reflection.HasField(message, &field)) return false;
  return dot == std::string_view::npos ||
         has_key(reflection.GetMessage(message, &field), key.substr(dot + 1));
}

/// Adds the keys of the numbers that are present but not positive.
void find_not_positive(const Message& message, const std::string& prefix,
                       std::vector<std::string>& keys) {
  const google::protobuf::Reflection& reflection = *message.GetReflection();
  std::vector<const FieldDescriptor*> fields;
  reflection.ListFields(message, &fields);
  for (const FieldDescriptor* field : fields) {
    const std::string key = prefix + field->name();
    if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
      find_not_positive(reflection.GetMessage(message, field), key + ".", keys);
    } else if (field->cpp_type() == FieldDescriptor::CPPTYPE_DOUBLE) {
      if (!(reflection.GetDouble(message, field) > 0.0)) keys.push_back(key);
    } else if (field->cpp_type() == FieldDescriptor::CPPTYPE_UINT32) {
      if (reflection.GetUInt32(message, field) == 0) keys.push_back(key);
    }
  }
}

double gemm_rate(const v1::Hardware::Gemm& gemm, Dtype dtype) {
  const std::string name = to_string(dtype);
  if (!has_key(gemm, name)) {
    throw InputError("hardware file: gemm." + name, "is missing, and the job computes in " + name);
  }
  switch (dtype) {
    case Dtype::kFloat32:
      return gemm.float32();
    case Dtype::kFloat16:
      return gemm.float16();
    case Dtype::kBFloat16:
      return gemm.bfloat16();
  }
  throw std::invalid_argument("no such Dtype");
}

int ranks_per_host(const v1::Hardware& hardware, int ranks) {
  if (!hardware.has_ranks_per_host()) return ranks;
  return static_cast<int>(std::min<int64_t>(ranks, hardware.ranks_per_host()));
}

}  // namespace

v1::Hardware parse_hardware(const std::string& text, const std::string& origin) {
  v1::Hardware hardware;
  YamlMessageReader reader;
  read_yaml_text(text, origin, reader, hardware);
  std::vector<Fault> faults;
  const auto add = [&](std::string_view key, const std::string& what) {
    faults.push_back({line_of(reader.lines, std::string(key)), std::string(key), what});
  };
  std::vector<std::string> not_positive;
  find_not_positive(hardware, "", not_positive);
  for (const std::string& key : not_positive) add(key, "must be greater than 0");
  for (const std::string_view key : kNeededByAll) {
    if (!has_key(hardware, key)) add(key, "is missing");
  }
  const bool cuda = hardware.device() == v1::Hardware::cuda;
  for (const std::string_view key : kOfGpus) {
    if (cuda && !has_key(hardware, key)) add(key, "is missing, with device: cuda");
    if (!cuda && has_key(hardware, key)) add(key, "needs device: cuda");
  }
  for (const std::string_view key : kOptionalOfGpus) {
    if (!cuda && has_key(hardware, key)) add(key, "needs device: cuda");
  }
  if (!faults.empty()) throw_faults(origin, std::move(faults));
  return hardware;
}

v1::Hardware read_hardware(const std::filesystem::path& path) {
  return parse_hardware(read_whole_file(path, kMaxHardwareFileBytes), path.string());
}

v1::Hardware reference_hardware(const DeviceFacts& facts) {
  constexpr int kAmpere = 80;
  constexpr int kHopper = 90;
  std::string_view text = v100x8_yaml();
  if (facts.least_capability >= kAmpere) text = a100x8_yaml();
  if (facts.least_capability >= kHopper) text = h100x1_yaml();
  if (facts.device == DeviceKind::kCpu) text = cpu_yaml();
  v1::Hardware hardware =
      parse_hardware(std::string(text), "the built-in rates of " + to_string(facts.device));
  // The machine of the file has no use for some rates. Any value is as good.
  v1::Hardware::Gemm& gemm = *hardware.mutable_gemm();
  if (!gemm.has_float16()) gemm.set_float16(gemm.float32());
  if (!gemm.has_bfloat16()) gemm.set_bfloat16(gemm.float32());
  if (!hardware.has_link()) hardware.set_link(hardware.host().to_device());
  return hardware;
}

LaunchFacts launch_facts(const v1::Hardware& hardware, int ranks) {
  LaunchFacts facts{.ranks = ranks};
  if (hardware.device() == v1::Hardware::cuda) {
    facts.devices = {DeviceKind::kCuda, static_cast<int>(hardware.capability())};
  }
  const v1::Hardware::Capacity& capacity = hardware.capacity();
  if (capacity.has_host()) {
    facts.memory = static_cast<int64_t>(capacity.host()) / ranks_per_host(hardware, ranks);
  }
  if (capacity.has_device()) facts.device_memory = static_cast<int64_t>(capacity.device());
  return facts;
}

RankRates rank_rates(const v1::Hardware& hardware, const ResolvedJob& job) {
  const bool cuda = hardware.device() == v1::Hardware::cuda;
  if (cuda != (job.resources.device == DeviceKind::kCuda)) {
    throw InputError("hardware file: device", "the job computes on " +
                                                  to_string(job.resources.device) +
                                                  ", the file is for " + (cuda ? "cuda" : "cpu"));
  }
  constexpr double kNoLimit = std::numeric_limits<double>::infinity();
  RankRates rates;
  rates.cuda = cuda;
  rates.ranks_per_host = ranks_per_host(hardware, job.resources.ranks);
  const auto sharers = static_cast<double>(rates.ranks_per_host);
  const double share = rates.cuda ? 1.0 : 1.0 / sharers;  // share of the device

  rates.compute_gemm = share * gemm_rate(hardware.gemm(), job.resources.compute_dtype);
  rates.float32_gemm = share * hardware.gemm().float32();
  rates.float64_gemm = share * hardware.gemm().float64();
  rates.fold_gemm =
      folds_in_float64(job.output.dtypes.main) ? rates.float64_gemm : rates.float32_gemm;
  rates.attention = share * hardware.attention();
  rates.memory = share * hardware.memory();
  rates.l1_cost = share * hardware.l1_cost();
  rates.eigen = share * hardware.eigen();
  rates.svd = share * hardware.svd();
  rates.qr = share * hardware.qr();
  rates.sinkhorn = share * hardware.sinkhorn();
  rates.host_memory = rates.cuda ? hardware.host().memory() : rates.memory;
  rates.to_device = rates.cuda ? hardware.host().to_device() : kNoLimit;
  if (job.resources.ranks > 1 && !hardware.has_link()) {
    throw InputError("hardware file: link", "is missing, and the job has several ranks");
  }
  rates.link = job.resources.ranks > 1 ? hardware.link() : kNoLimit;
  rates.disk_read = hardware.disk().read() / sharers;
  rates.disk_write = hardware.disk().write() / sharers;
  rates.cache_bytes = hardware.disk().cache();
  const auto cores = static_cast<double>(hardware.cores());
  if (!rates.cuda) rates.alone = std::max(1.0, sharers / cores);
  rates.hash = hardware.hash() * std::min(1.0, cores / sharers);
  return rates;
}

}  // namespace dotresize
