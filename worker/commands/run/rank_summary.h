#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "base/phase_clock.h"
#include "job/plan/junction_widths.h"
#include "job/plan/shard_plan.h"
#include "job/report/report_entries.h"
#include "worker/checkpoint/writer.h"
#include "worker/comm/communicator.h"
#include "worker/cuda/choose_device.h"
#include "worker/maps/junction_map.h"

namespace dotresize {

// What every rank knows of its own part, gathered on rank 0 for the report. All are collective; the
// other ranks get empty results.

/// `solved`: by junction, those of this rank. All 2L+1 junctions in order, those that keep their
/// width included. `transport`: the maps are of a method with transport.
std::vector<JunctionReport> gather_junctions(Communicator& comm, const JunctionWidths& widths,
                                             bool transport,
                                             const std::map<int64_t, MapDiagnostics>& solved);

/// SHA-256 by file name of the output's shards, each hashed by the rank that wrote it.
std::map<std::string, std::string> gather_hashes(Communicator& comm,
                                                 const std::filesystem::path& dir,
                                                 const ShardLayout& layout);

/// SHA-256 by file name of the source's config.json and weights, the files dealt out to the ranks.
std::map<std::string, std::string> gather_input_hashes(Communicator& comm,
                                                       const std::filesystem::path& model_dir,
                                                       std::vector<std::filesystem::path> files);

/// `clock`: this rank's so far.
std::vector<RankReport> gather_ranks(Communicator& comm, const ShardPlan& plan,
                                     const PhaseClock& clock, const ChosenDevice& device);

}  // namespace dotresize
