#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace dotresize {

/// "a, b, c".
std::string listed(const std::vector<std::string>& words);

/// The candidate with the smallest edit distance to `word`, if a typing error may explain it
/// (at most a third of the letters); otherwise empty.
std::string closest(std::string_view word, const std::vector<std::string>& candidates);

}  // namespace dotresize
