#pragma once

#include <filesystem>
#include <string>

#include "dotresize/v1/job.pb.h"

namespace dotresize {

/// Key of the identity in Report::fingerprints.
inline constexpr char kJobFingerprint[] = "job";

/// SHA-256 of what makes two runs the same job: the program's version, the spec without the place
/// of its output, ranks and budgets, and size and time of change of the source's files and of the
/// texts, tokens and statistics. Files that cannot be read count as missing.
std::string job_identity(const v1::JobSpec& spec);

/// True if `dir` is a complete output of the job with this identity.
bool is_output_of(const std::filesystem::path& dir, const std::string& identity);

}  // namespace dotresize
