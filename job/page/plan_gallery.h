#pragma once

#include <set>
#include <string>
#include <vector>

#include "job/page/page.h"
#include "job/page/plan_image.h"

namespace dotresize {

// A gallery of transport plans on its page.

std::vector<const TransportPicture*> pictures_of(const PlanGallery& gallery);

/// What is shown until the reader chooses, and without a script: the first plan, that in the middle
/// and the last.
std::set<size_t> shown_plans(const PlanGallery& gallery);

/// "2.5·10⁻⁶": two significant digits.
std::string scientific(double value);

/// The mass of each cell: a column for each of the picture's, a row likewise, named after their
/// first channels.
std::string csv_of(const TransportPicture& picture);

/// All plans for page.js.
std::string plans_json(const PlanGallery& gallery, const ColourScale& scale);

}  // namespace dotresize
