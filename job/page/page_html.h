#pragma once

#include <string>

#include "job/page/page.h"

namespace dotresize {

/// Renders one self-contained UTF-8 HTML document that needs no network. Styles, script, Chart.js
/// and data are embedded, and its Content-Security-Policy allows nothing else.
std::string page_html(const Page& page);

}  // namespace dotresize
