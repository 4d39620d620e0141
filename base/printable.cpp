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

}  // namespace

std::string printable(std::string_view text, size_t max_bytes) {
  std::string result;
  while (!text.empty()) {
    const size_t length = utf8_length(text);
    const size_t taken = length == 0 ? 1 : length;
    if (result.size() + taken > max_bytes) break;
    if (text[0] == '\n' || text[0] == '\r' || text[0] == '\t') {
      result += ' ';
    } else if (length == 0 || is_control(text[0])) {
      result += '?';
    } else {
      result += text.substr(0, length);
    }
    text.remove_prefix(taken);
  }
  return result;
}

}  // namespace dotresize
