#pragma once

#include <vector>

#include "job/report/report_entries.h"
#include "worker/commands/run/job_calibration.h"

namespace dotresize {

/// Distils the layers of the output that was written, and writes those that became better in their
/// place. Returns what the report says of them; nothing if the job does not heal. Collective.
std::vector<HealedLayerReport> heal(JobContext& run, const JobTokens& tokens, OpenedJournal& opened,
                                    const Calibrated& calibrated);

}  // namespace dotresize
