#pragma once

#include <string>

#include "job/page/page.h"

namespace dotresize {

/// What a page says, as HTML for the main element of a document with page.css: error, warnings,
/// tables, figures and texts. The figures are drawn by page.js from figures_json().
std::string blocks_html(const Page& page);

}  // namespace dotresize
