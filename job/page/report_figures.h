#pragma once

#include <vector>

#include "job/page/page.h"
#include "job/report/stored_report.h"

namespace dotresize {

/// What a report has of the depth of the model, and of the ranks; a figure only if it has its data.
std::vector<Figure> report_figures(const StoredReport& report);

}  // namespace dotresize
