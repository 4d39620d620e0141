#include "base/in_quotes.h"

#include <cstddef>

#include "base/hex_digits.h"

namespace dotresize {
namespace {

constexpr size_t kMaxBytes = 100;
constexpr size_t kLongestCharacter = 4;

bool continues_character(char c) { return (static_cast<unsigned char>(c) & 0xC0) == 0x80; }

std::string_view beginning(std::string_view value) {
  if (value.size() <= kMaxBytes) return value;
  size_t end = kMaxBytes;
  while (end > kMaxBytes - kLongestCharacter && continues_character(value[end])) --end;
  return value.substr(0, end);
}

}  // namespace

std::string in_quotes(std::string_view value) {
  const std::string_view start = beginning(value);
  std::string out = "'";
  for (const char c : start) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7F) {
      out += "\\x" + hex_digits({&c, 1});
    } else {
      out += c;
    }
  }
  return out + (start.size() < value.size() ? "...'" : "'");
}

}  // namespace dotresize
