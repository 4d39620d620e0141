#pragma once

#include <filesystem>
#include <string>

#include "dotresize/v1/jobs.pb.h"

namespace dotresize {

inline constexpr char kModelCard[] = "README.md";  ///< model card in an output

/// Reads the result of a succeeded job from the report in the directory `output`. Throws InputError
/// if the report is missing or malformed.
v1::JobResult result_of(const v1::Job& job, const std::string& output);

/// Reads the result of a sweep from the results in its directory. Same errors as result_of().
v1::JobResult sweep_result_of(const v1::Job& job, const std::string& output);

/// Copies report, model card and hashes of an output into the directory `kept`. Called before an
/// output that was pushed is removed. Throws std::filesystem::filesystem_error.
void keep_report(const std::filesystem::path& output, const std::filesystem::path& kept);

/// Returns the directory of a SUCCEEDED job's report and model card: its `output`, or, if that was
/// pushed, a directory in its state `folder`.
std::filesystem::path reported_in(const v1::Job& job, const std::filesystem::path& folder,
                                  const std::filesystem::path& output);

}  // namespace dotresize
