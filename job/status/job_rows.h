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

/// Local time: "2026-03-01 14:05:09 CET".
std::string date_text(const google::protobuf::Timestamp& time);

/// "4 min 2 s ago".
std::string age_text(const google::protobuf::Timestamp& time, std::time_t now);

/// Time that the job has computed, or "" before it begins. For a succeeded job it is the wall time
/// that its ranks measured, so it is the same everywhere.
std::string time_taken(const v1::Job& job, std::time_t now);

/// Rows of name and value for all of a job but its result.
std::vector<std::vector<std::string>> job_rows(const v1::Job& job, std::time_t now);

}  // namespace dotresize
