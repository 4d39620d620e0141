#pragma once

#include <vector>

#include "job/page/page.h"
#include "job/report/stored_report.h"

namespace dotresize {

/// Figures of a report over the model's depth and over the ranks. Figures without data are left
/// out.
std::vector<Figure> report_figures(const StoredReport& report);

}  // namespace dotresize
