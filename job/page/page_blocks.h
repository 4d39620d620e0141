#pragma once

#include <string>

#include "job/page/page.h"

namespace dotresize {

/// Renders the page as HTML for the main element of a document with page.css: error, warnings,
/// tables, figures and texts. page.js draws the figures from figures_json().
std::string blocks_html(const Page& page);

}  // namespace dotresize
