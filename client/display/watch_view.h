#pragma once

#include "client/calls/follow.h"

namespace dotresize {

/// View of a job's progress on stderr (client/display/progress_display.h), with a line for each
/// change of its state.
WatchObserver progress_view();

/// View that prints a growing table on stdout: first the newest `limit` jobs, the newest one last,
/// then a line whenever a job's state, attempt, phase or error changes.
JobsObserver jobs_view(int limit);

}  // namespace dotresize
