#pragma once

#include <vector>

#include "job/page/page.h"
#include "job/report/stored_report.h"

namespace dotresize {

/// Figures of each rank's time by phase and of its memory; empty without ranks.
std::vector<Figure> rank_figures(const StoredReport& report);

}  // namespace dotresize
