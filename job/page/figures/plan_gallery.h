#pragma once

#include <set>
#include <string>
#include <vector>

#include "job/page/figures/plan_image.h"
#include "job/page/page.h"

namespace dotresize {

// Gallery of transport plans on a page.

std::vector<const TransportPicture*> pictures_of(const PlanGallery& gallery);

/// Indices of the plans that are shown at first, and without a script: the first, the middle and
/// the last one.
std::set<size_t> shown_plans(const PlanGallery& gallery);

/// Formats with two significant digits: "2.5·10⁻⁶".
std::string scientific(double value);

/// CSV with the mass of each cell, one line per row of the picture. Rows and columns are named
/// after their first channels.
std::string csv_of(const TransportPicture& picture);

/// All plans as JSON for page.js.
std::string plans_json(const PlanGallery& gallery, const ColourScale& scale);

}  // namespace dotresize
