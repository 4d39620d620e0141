#pragma once

#include <optional>
#include <vector>

#include "job/page/page.h"
#include "job/report/stored_report.h"

namespace dotresize {

/// Over the depth of the model, how far the plans spread mass, and how much of it stays; none with
/// fewer than two plans.
std::vector<Figure> transport_figures(const StoredReport& report);

/// The plans themselves; of maps that junctions share one each. Nothing without transport.
std::optional<PlanGallery> plan_gallery(const StoredReport& report);

}  // namespace dotresize
