#pragma once

#include <filesystem>
#include <string>

#include "dotresize/v1/jobs.pb.h"

namespace dotresize {

inline constexpr char kModelCard[] = "README.md";  ///< of an output

/// What the report in the directory `output` says of a job that has succeeded. Throws InputError if
/// there is none, or a malformed one.
v1::JobResult result_of(const v1::Job& job, const std::string& output);

/// The same of a sweep, from the results in its directory.
v1::JobResult sweep_result_of(const v1::Job& job, const std::string& output);

/// Copies what an output says of itself (report, model card, hashes) into the directory `kept`,
/// before an output that was pushed is removed. Throws std::filesystem::filesystem_error.
void keep_report(const std::filesystem::path& output, const std::filesystem::path& kept);

/// Where report and model card of a job that has SUCCEEDED are: in its `output`, or, if that was
/// pushed, in its `folder` of the state directory.
std::filesystem::path reported_in(const v1::Job& job, const std::filesystem::path& folder,
                                  const std::filesystem::path& output);

}  // namespace dotresize
