#pragma once

#include <charconv>
#include <optional>
#include <string_view>

namespace dotresize {

/// Parses the whole of `text` as a number, in the C locale, without blanks or a plus sign. Returns
/// nothing for any other text or a number out of range. `format`: the last argument of
/// std::from_chars, a base or a std::chars_format.
template <class Number, class... Format>
std::optional<Number> parse_number(std::string_view text, Format... format) {
  const char* const text_end = text.data() + text.size();
  Number number{};
  const auto [end, error] = std::from_chars(text.data(), text_end, number, format...);
  if (error != std::errc() || end != text_end) return std::nullopt;
  return number;
}

}  // namespace dotresize
