#include "worker/commands/run/output/output_maps.h"

#include <ATen/ATen.h>

#include <filesystem>
#include <set>
#include <string>

#include "base/files/partial_path.h"
#include "job/report/report.h"
#include "worker/calibration/aligned_maps.h"
#include "worker/checkpoint/writer.h"

namespace dotresize {
namespace fs = std::filesystem;
namespace {

std::string map_of(const JunctionReport& junction) { return junction.name + ".map"; }
std::string inverse_of(const JunctionReport& junction) { return junction.name + ".inverse"; }

ShardLayout maps_layout(const std::vector<JunctionReport>& junctions, int64_t hidden_size) {
  ShardLayout layout;
  ShardLayout::Shard& shard = layout.shards.emplace_back();
  shard.file = kMapsFile;
  for (const JunctionReport& junction : junctions) {
    shard.tensors.push_back({map_of(junction), at::kFloat, {hidden_size, junction.width}});
    shard.tensors.push_back({inverse_of(junction), at::kFloat, {junction.width, hidden_size}});
  }
  return layout;
}

void write_all(AlignedMaps& maps, const std::vector<JunctionReport>& junctions, const fs::path& dir,
               int64_t hidden_size) {
  const ShardLayout layout = maps_layout(junctions, hidden_size);
  std::set<std::string> names;
  for (const TensorSpec& tensor : layout.shards.front().tensors) names.insert(tensor.name);
  create_shards(dir, layout);
  ShardWriter writer(dir, layout, names);
  for (const JunctionReport& junction : junctions) {
    if (&junction != &junctions.front()) maps.next();
    JunctionMap map = maps.map();
    if (!map.M.defined()) map = JunctionMap(at::eye(hidden_size));
    writer.write(map_of(junction), map.M);
    writer.write(inverse_of(junction), map.M_inv);
  }
  writer.finish();
}

}  // namespace

void write_maps(JobContext& run, const TokenWindows& calibration, OpenedJournal& opened,
                const Calibrated& calibrated) {
  const CalibrationJob job = calibration_job(run, calibrated.cut, run.source, calibration, opened);
  auto maps = maps_of_output(run.comm, job, calibrated.output, run.clock);
  if (!maps || !run.root()) return;
  const PhaseClock::Scope scope(run.clock, "write");
  const fs::path dir = run.partial() / kReportDirectory;
  fs::create_directory(dir);
  write_all(*maps, calibrated.junctions, dir, run.config.hidden_size);
}

}  // namespace dotresize
