#pragma once

#include <memory>

#include "client/calls/follow.h"

namespace dotresize {

/// Shows a job's progress on stderr (client/display/progress_display.h), and each change of its
/// state as a line.
std::unique_ptr<WatchObserver> progress_view();

/// Every event as one line of JSON on stdout.
std::unique_ptr<WatchObserver> json_view();

/// A table on stdout that grows: first the newest `limit` jobs, the newest one last, then a line
/// whenever state, attempt, phase or error of a job are others.
std::unique_ptr<JobsObserver> jobs_view(int limit);

/// Every change as one line of JSON on stdout.
std::unique_ptr<JobsObserver> jobs_json_view();

}  // namespace dotresize
