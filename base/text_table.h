#pragma once

#include <string>
#include <vector>

namespace dotresize {

/// Code points of UTF-8 text: the columns it takes, wide characters aside.
int display_width(const std::string& text);

enum class Align { kLeft, kRight };
/// Columns two spaces apart, the last left-aligned one not padded; each line ends with a newline.
/// Every row has one cell for each entry of `alignment`.
std::string format_table(const std::vector<std::vector<std::string>>& rows,
                         const std::vector<Align>& alignment);

}  // namespace dotresize
