#pragma once

#include <charconv>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace dotresize {

// Texts for other programs: numbers, and formats that others define.

/// Formats each byte as two lower-case hexadecimal digits.
std::string hex_digits(std::string_view bytes);

/// Encodes as RFC 4648, section 4, with padding.
std::string base64(std::string_view bytes);

/// Decodes `text` to exactly `size` bytes. Returns nothing if it is not base64 or has another size.
std::optional<std::string> from_base64(std::string_view text, size_t size);

/// Returns a CSV cell (RFC 4180): quoted if it has a comma, a quote or a line break.
std::string csv_cell(std::string_view text);

/// True if `text` is a `traceparent` (W3C Trace Context, version 00) with a trace id and a span id.
bool is_traceparent(std::string_view text);

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
