#pragma once

#include <string>

namespace dotresize {

/// A name from a file, fit for an error message: in single quotes, control characters as \xNN, cut
/// to about a hundred bytes at a character's boundary.
std::string in_quotes(const std::string& name);

}  // namespace dotresize
