#pragma once

#include <ctime>
#include <string>
#include <vector>

#include "dotresize/v1/jobs.pb.h"
#include "job/report/report.h"
#include "job/status/job_rows.h"

namespace dotresize {

/// How a program that waited for this job exits (docs/cli.md).
int exit_code_for(const v1::Job& job);

/// Everything about one job, as `status` shows it. Ends with a newline, as all of these do.
std::string job_text(const v1::Job& job, std::time_t now);

/// What the server says of itself, a line for each.
std::string server_text(const v1::ServerInfo& server);

/// How far it is: "58 %"; empty if nothing is known.
std::string done_text(const v1::Job& job);

/// One line per job under a heading; a sentence if there is none.
std::string job_table(const std::vector<v1::Job>& jobs, std::time_t now);

/// How the job ended: the table of the result, the error, or that it was cancelled.
std::string outcome_text(const v1::Job& job);

/// The same table from a model's own report.
std::string report_text(const ReportSummary& summary);

}  // namespace dotresize
