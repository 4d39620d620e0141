#include "worker/commands/run/ranks/rank_summary.h"

#include <ATen/ATen.h>
#include <fmt/core.h>
#include <sys/resource.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "base/files/durable_file.h"
#include "base/process/environment.h"
#include "worker/cuda/cuda_module.h"

namespace dotresize {
namespace fs = std::filesystem;
namespace {

using Json = nlohmann::json;

/// Returns the pairs and time of this rank's l1 costs, with the limit of its GPU if it has one;
/// nothing if it has computed no costs.
std::optional<CostReport> cost_report(const PhaseClock& clock, const ChosenDevice& device) {
  const auto found = clock.work.find("cost");
  if (found == clock.work.end()) return std::nullopt;
  CostReport report{found->second, clock.seconds().at("cost")};
  if (device.cuda) {
    report.limit_pairs_per_s = l1_cost_limit(device.cuda->info(device.device.index()));
  }
  return report;
}

}  // namespace

std::vector<RankReport> gather_ranks(Communicator& comm, const ShardPlan& plan,
                                     const PhaseClock& clock, const ChosenDevice& device) {
  const RankShard& shard = plan.of_rank(comm.rank());
  RankReport mine;
  mine.rank = comm.rank();
  mine.host = host_name();
  mine.first_sublayer = shard.first_sublayer;
  mine.end_sublayer = shard.end_sublayer;
  mine.seconds = clock.seconds();
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  mine.peak_memory_bytes = int64_t{1024} * usage.ru_maxrss;
  mine.gpu = device.name;
  if (device.cuda) {
    const DeviceMemory memory = device.cuda->memory();
    mine.peak_device_memory_bytes = memory.peak;
    mine.peak_device_allocated_bytes = memory.peak_allocated;
  }
  mine.cost = cost_report(clock, device);
  std::vector<RankReport> reports;
  for (const std::string& text : gather_strings(comm, to_json(mine).dump(), 0)) {
    reports.push_back(rank_report_from_json(Json::parse(text)));
  }
  return reports;
}

void write_trace(Communicator& comm, const PhaseClock& clock, const fs::path& path) {
  constexpr double kMicroseconds = 1e6;
  const int rank = comm.rank();
  Json mine =
      Json::array({{{"name", "process_name"},
                    {"ph", "M"},
                    {"pid", rank},
                    {"args", {{"name", fmt::format("rank {} on {}", rank, host_name())}}}}});
  for (const PhaseClock::Span& span : clock.spans()) {
    Json event = {{"name", span.phase},
                  {"ph", "X"},
                  {"ts", span.begin_s * kMicroseconds},
                  {"dur", (span.end_s - span.begin_s) * kMicroseconds},
                  {"pid", rank},
                  {"tid", rank}};
    if (!span.detail.empty()) event["args"] = {{"junction", span.detail}};
    mine.push_back(std::move(event));
  }
  const std::vector<std::string> ranks = gather_strings(comm, mine.dump(), 0);
  if (comm.rank() != 0) return;
  Json events = Json::array();
  for (const std::string& text : ranks) {
    for (Json& event : Json::parse(text)) events.push_back(std::move(event));
  }
  const Json document = {{"displayTimeUnit", "ms"}, {"traceEvents", std::move(events)}};
  write_file_atomically(path, document.dump() + "\n");
}

}  // namespace dotresize
