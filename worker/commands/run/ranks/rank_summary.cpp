#include "worker/commands/run/ranks/rank_summary.h"

#include <ATen/ATen.h>
#include <sys/resource.h>

#include <nlohmann/json.hpp>

#include "base/process/environment.h"
#include "job/model/model_config.h"
#include "worker/cuda/cuda_module.h"

namespace dotresize {
namespace {

using Json = nlohmann::json;

double work_of(const PhaseClock& clock, const char* kind) {
  const auto found = clock.work().find(kind);
  return found == clock.work().end() ? 0.0 : found->second;
}

/// Limit in pairs a second for pairs of both precisions: their number over the least time for them.
double limit_of_gpu(const GpuInfo& gpu, double float32_pairs, double float16_pairs) {
  return (float32_pairs + float16_pairs) / (float32_pairs / l1_cost_limit(gpu, at::kFloat) +
                                            float16_pairs / l1_cost_limit(gpu, at::kHalf));
}

/// Returns the pairs and time of this rank's l1 costs, with the limit of its GPU if it has one;
/// nothing if it has computed no costs.
std::optional<CostReport> cost_report(const PhaseClock& clock, const ChosenDevice& device) {
  const double float32_pairs = work_of(clock, "cost");
  const double float16_pairs = work_of(clock, "cost_float16");
  const double pairs = float32_pairs + float16_pairs;
  if (pairs == 0.0) return std::nullopt;
  CostReport report{pairs, clock.seconds().at("cost")};
  if (device.cuda) {
    report.limit_pairs_per_s =
        limit_of_gpu(device.cuda->info(device.device.index()), float32_pairs, float16_pairs);
  }
  return report;
}

int64_t peak_resident_bytes() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return int64_t{1024} * usage.ru_maxrss;
}

RankReport describe_rank(int rank, const RankShard& shard, const PhaseClock& clock,
                         const ChosenDevice& device) {
  RankReport report;
  report.rank = rank;
  report.host = host_name();
  report.first_sublayer = shard.first_sublayer;
  report.end_sublayer = shard.end_sublayer;
  report.seconds = clock.seconds();
  report.peak_memory_bytes = peak_resident_bytes();
  report.gpu = device.name;
  if (device.cuda) {
    const DeviceMemory memory = device.cuda->memory();
    report.peak_device_memory_bytes = memory.peak;
    report.peak_device_allocated_bytes = memory.peak_allocated;
  }
  report.cost = cost_report(clock, device);
  return report;
}

}  // namespace

std::vector<RankReport> gather_ranks(Communicator& comm, const ShardPlan& plan,
                                     const PhaseClock& clock, const ChosenDevice& device) {
  const RankShard& shard = plan.of_rank(comm.rank());
  const RankReport mine = describe_rank(comm.rank(), shard, clock, device);
  std::vector<RankReport> reports;
  for (const std::string& text : gather_strings(comm, to_json(mine).dump(), 0)) {
    reports.push_back(rank_report_from_json(Json::parse(text)));
  }
  return reports;
}

}  // namespace dotresize
