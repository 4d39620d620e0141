#pragma once

#include <ctime>
#include <string>
#include <vector>

#include "dotresize/v1/jobs.pb.h"

namespace dotresize {

/// "succeeded", "failed", ...; "cancelling" while a cancel has not taken effect.
std::string state_name(const v1::Job& job);
std::string state_name(v1::Job::State state);

/// Text with the reason of the failure and the failed rank.
std::string error_text(const v1::JobError& error);

/// Converts to seconds since 1970.
double unix_time(const google::protobuf::Timestamp& time);

/// Local time: "2026-03-01 14:05:09 CET".
std::string date_text(const google::protobuf::Timestamp& time);

/// "4 min 2 s ago".
std::string age_text(const google::protobuf::Timestamp& time, std::time_t now);

/// Time that the job has computed, or "" before it begins. For a succeeded job it is the wall time
/// that its ranks measured, so it is the same everywhere.
std::string time_taken(const v1::Job& job, std::time_t now);

/// Rows of name and value for all of a job but its result.
std::vector<std::vector<std::string>> job_rows(const v1::Job& job, std::time_t now);

/// Finished fraction of the whole job, clamped to [0, 1]; 0 for NaN.
double fraction_of(const v1::Progress& progress);

/// fraction_of in per cent, rounded down.
int percent_of(const v1::Progress& progress);

/// percent_of as text: "58 %".
std::string render_share(const v1::Progress& progress);

/// Phase such as "calibrate"; "starting" before the first heartbeat.
std::string phase_name(const v1::Progress& progress);

/// Texts beside phase and share; each is empty if unknown.
struct ProgressDetails {
  std::string junctions;  ///< "junctions 7/13"; for a transfer "3.2 GiB of 7.1 GiB"
  std::string rate;       ///< "12.3k tok/s"; for a transfer "112 MiB/s"
  std::string eta;        ///< "ETA 0:42"
};
ProgressDetails details_of(const v1::Progress& progress);

/// Joins the non-empty parts, with a separator before each.
std::string joined(const std::vector<std::string>& parts, const std::string& separator);

/// The whole progress as plain text: "solve 58 %, junctions 7/13, 12.3k tok/s, ETA 0:42".
std::string render_plain(const v1::Progress& progress);

/// QUEUED → STARTING → RUNNING → SUCCEEDED | FAILED | CANCELLED. Returns true for the last three.
inline bool has_ended(v1::Job::State state) {
  return state == v1::Job::SUCCEEDED || state == v1::Job::FAILED || state == v1::Job::CANCELLED;
}

/// Returns true if the job may have processes.
inline bool is_launched(v1::Job::State state) {
  return state == v1::Job::STARTING || state == v1::Job::RUNNING;
}

}  // namespace dotresize
