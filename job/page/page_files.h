#pragma once

#include <string_view>

namespace dotresize {

// Files that are embedded in every page, byte for byte.

/// page.html, with {{NAME}} where values go.
std::string_view page_template();
std::string_view page_css();
// Parts of the script.
std::string_view text_js();
std::string_view figures_js();
std::string_view plans_js();
std::string_view job_js();
std::string_view models_js();
std::string_view page_js();
/// Chart.js (MIT License), minified.
std::string_view chart_js();

}  // namespace dotresize
