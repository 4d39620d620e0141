#pragma once

#include <optional>

#include "job/report/report_entries.h"
#include "worker/commands/run/job_calibration.h"

namespace dotresize {

/// Distils the written output from the dense model, and replaces the folded weights by the trained
/// ones if these are better. Returns the report's part; nothing if the job does not heal.
/// Collective.
std::optional<HealingReport> heal(JobContext& run, const JobTokens& tokens, OpenedJournal& opened,
                                  const Calibrated& calibrated);

}  // namespace dotresize
