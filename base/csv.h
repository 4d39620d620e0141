#pragma once

#include <string>
#include <string_view>

namespace dotresize {

/// A cell of a CSV file (RFC 4180): in double quotes if it has a comma, a quote or a line break.
std::string csv_cell(std::string_view text);

}  // namespace dotresize
