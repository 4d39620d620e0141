#pragma once

#include <string>
#include <string_view>

namespace dotresize {

/// A value from outside, fit for an error message: in single quotes, control characters as \xNN,
/// cut to at most 100 bytes at the boundary of a UTF-8 character.
std::string in_quotes(std::string_view value);

}  // namespace dotresize
