#pragma once

#include <memory>

#include "client/follow.h"

namespace dotresize {

/// Shows a job's progress on stderr (client/progress_display.h), and each change of its state as a
/// line.
std::unique_ptr<WatchObserver> progress_view();

/// Every event as one line of JSON on stdout.
std::unique_ptr<WatchObserver> json_view();

}  // namespace dotresize
