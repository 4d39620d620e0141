#pragma once

#include <memory>

#include "client/calls/follow.h"

namespace dotresize {

/// View of a job's progress on stderr (client/display/progress_display.h), with a line for each
/// change of its state.
std::unique_ptr<WatchObserver> progress_view();

/// View that prints every event as one line of JSON on stdout.
std::unique_ptr<WatchObserver> json_view();

/// View that prints a growing table on stdout: first the newest `limit` jobs, the newest one last,
/// then a line whenever a job's state, attempt, phase or error changes.
std::unique_ptr<JobsObserver> jobs_view(int limit);

/// View that prints every change as one line of JSON on stdout.
std::unique_ptr<JobsObserver> jobs_json_view();

}  // namespace dotresize
