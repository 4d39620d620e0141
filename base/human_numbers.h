#pragma once

#include <cstdint>
#include <string>

namespace dotresize {

/// "8,030,261,248".
std::string with_separators(int64_t number);

/// "512 B", "14.9 GiB": binary units, three significant digits or more.
std::string human_bytes(int64_t bytes);

}  // namespace dotresize
