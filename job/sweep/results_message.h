#pragma once

#include <string>
#include <vector>

#include "dotresize/v1/sweep.pb.h"
#include "job/sweep/sweep_plan.h"
#include "job/sweep/sweep_results.h"

namespace dotresize {

/// Converts results.json (sweep_json) to the API's message. Throws InputError for a different
/// document.
v1::SweepResults results_message(const std::string& results_json);

/// A sweep that was run elsewhere.
struct ReportedSweep {
  SweepPlan plan;  ///< only the parts that sweep_table, sweep_csv and sweep_json need
  std::vector<SweepRow> rows;
};

/// Converts the API's message; all texts become printable.
ReportedSweep reported_sweep(const v1::SweepResults& results);

}  // namespace dotresize
