#pragma once

#include <string>

#include "job/report/report.h"

namespace dotresize {

/// Table of a job's time: the phases by falling share, each with its mean and its longest time over
/// the ranks. Below it: tokens per second, the largest peak memory, and the rate of the l1 costs.
/// Ends with a newline; empty without ranks.
std::string phase_table(const Report& report);

}  // namespace dotresize
