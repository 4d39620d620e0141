#include "base/printable.h"

#include <cstdint>

namespace dotresize {
namespace {

/// Bytes of the well-formed UTF-8 character that `text` begins with, 0 if there is none.
size_t utf8_length(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
  size_t length = 0;
  uint32_t code = 0;
  if (byte(0) < 0x80) return 1;
  if (byte(0) >= 0xC2 && byte(0) < 0xE0) {
    length = 2;
    code = byte(0) & 0x1Fu;
  } else if (byte(0) >= 0xE0 && byte(0) < 0xF0) {
    length = 3;
    code = byte(0) & 0x0Fu;
  } else if (byte(0) >= 0xF0 && byte(0) < 0xF5) {
    length = 4;
    code = byte(0) & 0x07u;
  }
  if (length == 0 || text.size() < length) return 0;
  for (size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0u) != 0x80u) return 0;
    code = code << 6 | (byte(i) & 0x3Fu);
  }
  const bool overlong = (length == 3 && code < 0x800) || (length == 4 && code < 0x10000);
  const bool surrogate = code >= 0xD800 && code < 0xE000;
  return overlong || surrogate || code > 0x10FFFF ? 0 : length;
}

bool is_control(char c) { return static_cast<uint8_t>(c) < 0x20 || c == 0x7F; }

/// Valid characters as they are; `replace(byte)` stands for a control character and for a byte that
/// is not UTF-8. Ends before the first piece that would exceed `max_bytes`, and leaves in `text`
/// what is from there on.
template <class Replace>
std::string replace_unprintable(std::string_view& text, size_t max_bytes, Replace&& replace) {
  std::string result;
  while (!text.empty()) {
    const size_t length = utf8_length(text);
    const bool allowed = length > 0 && !is_control(text[0]);
    const std::string piece = allowed ? std::string(text.substr(0, length)) : replace(text[0]);
    if (result.size() + piece.size() > max_bytes) break;
    result += piece;
    text.remove_prefix(length == 0 ? 1 : length);
  }
  return result;
}

}  // namespace

std::string printable(std::string_view text, size_t max_bytes) {
  return replace_unprintable(text, max_bytes, [](char c) -> std::string {
    return c == '\n' || c == '\r' || c == '\t' ? " " : "?";
  });
}

std::string printable_lines(std::string_view text) {
  return replace_unprintable(text, std::string::npos,
                             [](char c) -> std::string { return c == '\n' ? "\n" : "?"; });
}

std::string in_quotes(std::string_view value) {
  constexpr size_t kMaxBytes = 100;
  const std::string start = replace_unprintable(value, kMaxBytes, [](char c) {
    return "\\x" + hex_digits({&c, 1});
  });
  return "'" + start + (value.empty() ? "'" : "...'");
}

std::string hex_digits(std::string_view bytes) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string digits;
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    digits += kDigits[byte >> 4];
    digits += kDigits[byte & 0xF];
  }
  return digits;
}

}  // namespace dotresize
