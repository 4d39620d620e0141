#pragma once

#include <optional>

#include "job/report/report_entries.h"
#include "worker/commands/run/job_calibration.h"

namespace dotresize {

/// Distils the output that was written from the dense model, and writes the trained weights in
/// place of the folded ones if they are better. Returns what the report says of it; nothing if the
/// job does not heal. Collective.
std::optional<HealingReport> heal(JobContext& run, const JobTokens& tokens, OpenedJournal& opened,
                                  const Calibrated& calibrated);

}  // namespace dotresize
