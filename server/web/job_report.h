#pragma once

#include <filesystem>
#include <optional>

#include "dotresize/v1/jobs.pb.h"
#include "job/page/page.h"

namespace dotresize {

/// Whether the job may have left a report by now: one that has succeeded, or a sweep that has
/// begun.
bool may_have_report(const v1::Job& job);

/// The report page of such a job, from where reported_in() says. Throws InputError if the
/// report is gone, is not this job's, or is malformed or too large for a page.
Page read_report_page(const v1::Job& job, const std::filesystem::path& output);

}  // namespace dotresize
