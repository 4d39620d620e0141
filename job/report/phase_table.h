#pragma once

#include <string>

#include "job/report/report.h"

namespace dotresize {

/// Where the time of a job went, for people: the phases by falling share, each with its mean and
/// its longest time over the ranks, then tokens per second, the largest peak memory, and what the
/// l1 costs have reached. Ends with a newline; empty if there are no ranks.
std::string phase_table(const Report& report);

}  // namespace dotresize
