#pragma once

#include <string>
#include <vector>

#include "dotresize/v1/sweep.pb.h"
#include "job/sweep/sweep_plan.h"
#include "job/sweep/sweep_results.h"

namespace dotresize {

/// The document results.json (sweep_json) as the API has it. Throws InputError for another one.
v1::SweepResults results_message(const std::string& results_json);

/// A sweep that was run elsewhere.
struct ReportedSweep {
  SweepPlan plan;  ///< as far as sweep_table, sweep_csv and sweep_json need it
  std::vector<SweepRow> rows;
};

/// What the message tells, in printable texts.
ReportedSweep reported_sweep(const v1::SweepResults& results);

}  // namespace dotresize
