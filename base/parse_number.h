#pragma once

#include <charconv>
#include <optional>
#include <string_view>

namespace dotresize {

/// The number that is the whole of `text`, in the C locale and without blanks or a plus sign;
/// nothing for any other text and for a number that is out of range. `format`: as std::from_chars
/// has it, a base or a std::chars_format.
template <class Number, class... Format>
std::optional<Number> parse_number(std::string_view text, Format... format) {
  const char* const text_end = text.data() + text.size();
  Number number{};
  const auto [end, error] = std::from_chars(text.data(), text_end, number, format...);
  if (error != std::errc() || end != text_end) return std::nullopt;
  return number;
}

}  // namespace dotresize
