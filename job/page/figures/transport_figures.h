#pragma once

#include <optional>
#include <vector>

#include "job/page/page.h"
#include "job/report/stored_report.h"

namespace dotresize {

/// Figures over the model's depth: how far the plans spread mass, and the share of mass that stays.
/// Empty with fewer than two plans.
std::vector<Figure> transport_figures(const StoredReport& report);

/// Gallery of the plans; junctions that share a map have one plan. nullopt for methods without
/// transport.
std::optional<PlanGallery> plan_gallery(const StoredReport& report);

}  // namespace dotresize
