#pragma once

#include <ctime>
#include <string>
#include <vector>

#include "client/calls/follow.h"
#include "dotresize/v1/jobs.pb.h"
#include "job/report/stored_report.h"
#include "job/status/job_rows.h"

namespace dotresize {

/// Exit code of a program that waited for this job (docs/cli.md).
int exit_code_for(const v1::Job& job);

/// Description of one job, as `status` shows it. All multi-line texts here end with a newline.
std::string job_text(const v1::Job& job, std::time_t now);

/// Description of the server, a line for each fact.
std::string server_text(const v1::ServerInfo& server);

/// Progress of the job: "58 %"; empty if unknown.
std::string done_text(const v1::Job& job);

/// Table with a heading and a line per job; a sentence if there are no jobs.
std::string job_table(const std::vector<v1::Job>& jobs, std::time_t now);

/// Outcome of an ended job: the result's table, the error, or a note that it was cancelled.
std::string outcome_text(const v1::Job& job);

/// Result table from a model's own report.
std::string report_text(const ReportSummary& summary);

/// View of a job's progress on stderr (client/display/progress_display.h), with a line for each
/// change of its state.
WatchObserver progress_view();

/// View that prints a growing table on stdout: first the newest `limit` jobs, the newest one last,
/// then a line whenever a job's state, attempt, phase or error changes.
JobsObserver jobs_view(int limit);

}  // namespace dotresize
