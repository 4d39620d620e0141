#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "job/report/report.h"
#include "job/sweep/sweep_plan.h"
#include "job/sweep/variant_paths.h"

namespace dotresize {

/// How far a job of a sweep is, or that there is none.
enum class SweepState { kPending, kDone, kFailed, kRefused };

/// One line of a sweep's result.
struct SweepRow {
  std::vector<std::string> values;  ///< as SweepJob::values
  std::string id;                   ///< empty if refused
  SweepState state = SweepState::kPending;
  std::string reason;                   ///< why it was refused, or has failed
  std::optional<ReportSummary> report;  ///< once it is done
  std::filesystem::path model;          ///< if it is kept
  bool front = false;                   ///< no other one has fewer bytes and less perplexity
  bool best = false;                    ///< of least perplexity among those with its target
};

/// The rows of a sweep, the refused ones last, as far as its directory has them.
std::vector<SweepRow> rows_of(const SweepPlan& plan);

/// Sets `front` and `best` of all rows.
void compare_rows(const SweepPlan& plan, std::vector<SweepRow>& rows);

/// What would be run: a line for each job with its settings, width and net size as far as they are
/// known, and whether it is done; then those that are refused with their reasons.
std::string sweep_jobs_table(const SweepPlan& plan, const std::vector<SweepRow>& rows);

/// A line for each row that is done, or of the front alone by size; then those that were refused or
/// have failed with their reasons.
std::string sweep_table(const SweepPlan& plan, const std::vector<SweepRow>& rows, bool front_alone);
std::string sweep_csv(const SweepPlan& plan, const std::vector<SweepRow>& rows);
std::string sweep_json(const SweepPlan& plan, const std::vector<SweepRow>& rows);

/// Writes results.csv and results.json into the sweep's directory, and report.html, unless
/// output.report_html is false.
void write_results(const SweepPlan& plan, const std::vector<SweepRow>& rows);

/// The message of the last failure in a log; empty if there is none.
std::string failure_in(const std::filesystem::path& log);

}  // namespace dotresize
