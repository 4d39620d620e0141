#pragma once

#include <filesystem>
#include <optional>

#include "dotresize/v1/jobs.pb.h"
#include "job/page/page.h"

namespace dotresize {

/// True if the job may have a report by now: a succeeded job, or a sweep that has begun.
bool may_have_report(const v1::Job& job);

/// Report page of such a job; `output` is the directory from reported_in(). Throws InputError if
/// the report is gone, is not this job's, or is malformed or too large for a page.
Page read_report_page(const v1::Job& job, const std::filesystem::path& output);

}  // namespace dotresize
