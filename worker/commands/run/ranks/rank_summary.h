#pragma once

#include <filesystem>
#include <vector>

#include "base/phase_clock.h"
#include "job/plan/rank_shard.h"
#include "job/report/report_entries.h"
#include "worker/comm/communicator.h"
#include "worker/cuda/choose_device.h"

namespace dotresize {

// Facts that every rank knows of its own part, gathered on rank 0.

/// Returns the report's entries of all ranks on rank 0, nothing on the others. `clock`: this rank's
/// times so far. Collective.
std::vector<RankReport> gather_ranks(Communicator& comm, const ShardPlan& plan,
                                     const PhaseClock& clock, const ChosenDevice& device);

/// Writes all ranks' spans as a timeline in the Trace Event Format of chrome://tracing and
/// Perfetto: a process per rank, an event per span, named after its phase. Rank 0 writes the file,
/// as a whole. The clocks must keep spans and have set their origin when the ranks met. Collective.
void write_trace(Communicator& comm, const PhaseClock& clock, const std::filesystem::path& path);

}  // namespace dotresize
