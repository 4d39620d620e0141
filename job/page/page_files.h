#pragma once

#include <string_view>

namespace dotresize {

// What every page has in it, byte for byte.

/// page.html: the template (ctemplate).
std::string_view page_template();
/// blocks.html: what is in its main element.
std::string_view blocks_template();
std::string_view page_css();
std::string_view page_js();
/// Chart.js (MIT License), minified.
std::string_view chart_js();

}  // namespace dotresize
