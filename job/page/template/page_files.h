#pragma once

#include <string_view>

namespace dotresize {

// Files that are embedded in every page, byte for byte.

/// page.html, the ctemplate template of a page.
std::string_view page_template();
/// blocks.html, the template of its main element.
std::string_view blocks_template();
std::string_view page_css();
std::string_view page_js();
/// Chart.js (MIT License), minified.
std::string_view chart_js();

}  // namespace dotresize
