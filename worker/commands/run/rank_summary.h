#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "base/phase_clock.h"
#include "job/plan/shard_plan.h"
#include "job/report/report_entries.h"
#include "worker/checkpoint/writer.h"
#include "worker/comm/communicator.h"
#include "worker/cuda/choose_device.h"

namespace dotresize {

// What every rank knows of its own part, gathered on rank 0 for the report. All are collective; the
// other ranks get empty results.

/// SHA-256 by file name of the output's shards, the files dealt out to the ranks. All of them have
/// finished writing.
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
