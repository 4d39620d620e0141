#pragma once

#include <vector>

#include "job/page/page.h"
#include "job/report/stored_report.h"

namespace dotresize {

/// What each layer is predicted to add to the loss, its parts (maps, MLPs, value heads, shortcuts)
/// stacked, in nats a token; the text has the sum beside the measured divergence. None for a report
/// without predictions of the loss.
std::vector<Figure> damage_figures(const StoredReport& report);

}  // namespace dotresize
