#pragma once

#include <vector>

#include "job/page/page.h"
#include "job/report/stored_report.h"

namespace dotresize {

/// Figure of the loss increase that each layer is predicted to cause, in nats per token, stacked by
/// part (maps, MLPs, value heads, shortcuts). Its text has the sum beside the measured divergence.
/// Empty for a report without predictions of the loss.
std::vector<Figure> damage_figures(const StoredReport& report);

}  // namespace dotresize
