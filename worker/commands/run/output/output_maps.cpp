#include <ATen/ATen.h>

#include <filesystem>
#include <set>
#include <string>

#include "base/files/file_changes.h"
#include "base/files/partial_path.h"
#include "worker/calibration/aligned_maps.h"
#include "worker/commands/run/job_steps.h"

namespace dotresize {
namespace fs = std::filesystem;

void write_maps(JobContext& run, const TokenWindows& calibration, OpenedJournal& opened,
                const Calibrated& calibrated) {
  const CalibrationJob job = calibration_job(run, calibrated.cut, run.source, calibration, opened);
  auto maps = maps_of_output(run.comm, job, calibrated.output, run.clock);
  if (!maps || !run.root) return;
  const PhaseClock::Scope scope(run.clock, "write");
  const fs::path dir = run.partial / kReportDirectory;
  files::create_directory(dir);
  const int64_t hidden_size = run.config.hidden_size;
  const auto map_of = [](const JunctionReport& junction) { return junction.name + ".map"; };
  const auto inverse_of = [](const JunctionReport& junction) { return junction.name + ".inverse"; };
  ShardLayout layout;
  ShardLayout::Shard& shard = layout.shards.emplace_back();
  shard.file = kMapsFile;
  std::set<std::string> names;
  for (const JunctionReport& junction : calibrated.junctions) {
    shard.tensors.push_back({map_of(junction), at::kFloat, {hidden_size, junction.width}});
    shard.tensors.push_back({inverse_of(junction), at::kFloat, {junction.width, hidden_size}});
    names.insert({map_of(junction), inverse_of(junction)});
  }
  create_shards(dir, layout);
  ShardWriter writer(dir, layout, names);
  for (const JunctionReport& junction : calibrated.junctions) {
    if (&junction != &calibrated.junctions.front()) maps->next();
    JunctionMap map = maps->map();
    if (!map.M.defined()) map = JunctionMap(at::eye(hidden_size));
    writer.write(map_of(junction), map.M);
    writer.write(inverse_of(junction), map.M_inv);
  }
  writer.finish();
}

}  // namespace dotresize
