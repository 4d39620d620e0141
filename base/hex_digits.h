#pragma once

#include <string>
#include <string_view>

namespace dotresize {

/// Two lower-case hexadecimal digits for each byte.
std::string hex_digits(std::string_view bytes);

}  // namespace dotresize
