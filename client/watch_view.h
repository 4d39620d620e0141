#pragma once

#include <memory>

#include "client/follow.h"

namespace dotresize {

/// Shows a job's progress on stderr: a line at the bottom that is redrawn in place if stderr is a
/// terminal; else, for logs, a line for each change of state or phase, and every so often in
/// between.
std::unique_ptr<WatchObserver> progress_view();

/// Every event as one line of JSON on stdout.
std::unique_ptr<WatchObserver> json_view();

}  // namespace dotresize
