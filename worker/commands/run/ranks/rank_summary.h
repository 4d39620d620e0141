#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "base/phase_clock.h"
#include "job/plan/shard_plan.h"
#include "job/report/report_entries.h"
#include "worker/comm/communicator.h"
#include "worker/cuda/choose_device.h"

namespace dotresize {

// Facts that every rank knows of its own part, gathered on rank 0 for the report. Collective; the
// other ranks get empty results.

/// `clock`: this rank's times so far.
std::vector<RankReport> gather_ranks(Communicator& comm, const ShardPlan& plan,
                                     const PhaseClock& clock, const ChosenDevice& device);

}  // namespace dotresize
