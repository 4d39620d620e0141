#pragma once

#include <string>
#include <string_view>

namespace dotresize {

/// Returns a CSV cell (RFC 4180): quoted if it has a comma, a quote or a line break.
std::string csv_cell(std::string_view text);

}  // namespace dotresize
