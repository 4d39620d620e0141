#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "dotresize/v1/sweep.pb.h"
#include "job/report/stored_report.h"
#include "job/sweep/sweep_plan.h"

namespace dotresize {

/// One line of a sweep's result.
struct SweepRow {
  std::vector<std::string> values;  ///< same as in SweepJob
  std::string id;                   ///< empty if refused
  v1::SweepResults::Variant::State state = v1::SweepResults::Variant::pending;
  std::string reason;                   ///< reason of the refusal or the failure
  std::optional<ReportSummary> report;  ///< set if the job is done
  std::filesystem::path model;          ///< model directory, if it is kept
  bool front = false;                   ///< on the Pareto front of bytes and perplexity
  bool best = false;                    ///< least perplexity among the rows with the same target
};

/// Returns the rows of a sweep with the results in its directory, the refused ones last.
std::vector<SweepRow> rows_of(const SweepPlan& plan);

/// Sets `front` and `best` of all rows.
void compare_rows(const SweepPlan& plan, std::vector<SweepRow>& rows);

/// Table of the planned jobs: settings, width and net size (as far as known), and whether the job
/// is done. The refused combinations follow with their reasons.
std::string sweep_jobs_table(const SweepPlan& plan, const std::vector<SweepRow>& rows);

/// Table of the rows that are done; `front_alone`: only the front, by size. The refused and failed
/// rows follow with their reasons.
std::string sweep_table(const SweepPlan& plan, const std::vector<SweepRow>& rows, bool front_alone);
std::string sweep_csv(const SweepPlan& plan, const std::vector<SweepRow>& rows);
std::string sweep_json(const SweepPlan& plan, const std::vector<SweepRow>& rows);

/// Writes results.csv and results.json into `directory`, the sweep's, and report.html unless
/// output.report_html is false.
void write_results(const std::filesystem::path& directory, const SweepPlan& plan,
                   const std::vector<SweepRow>& rows);

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

/// Returns the message of the last failure in a log; empty if there is none.
std::string failure_in(const std::filesystem::path& log);

}  // namespace dotresize
