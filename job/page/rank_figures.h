#pragma once

#include <vector>

#include "job/page/page.h"
#include "job/report/stored_report.h"

namespace dotresize {

/// Time by phase and memory of each rank; none if there are no ranks.
std::vector<Figure> rank_figures(const StoredReport& report);

}  // namespace dotresize
