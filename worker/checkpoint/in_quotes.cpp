#include "worker/checkpoint/in_quotes.h"

#include <cstddef>

namespace dotresize {
namespace {

constexpr size_t kMaxBytes = 100;

bool continues_character(char c) { return (static_cast<unsigned char>(c) & 0xC0) == 0x80; }

}  // namespace

std::string in_quotes(const std::string& name) {
  static constexpr char kHex[] = "0123456789abcdef";
  std::string out = "'";
  for (size_t i = 0; i < name.size(); ++i) {
    const char c = name[i];
    if (i >= kMaxBytes && !continues_character(c)) {
      out += "...";
      break;
    }
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7F) {
      out += "\\x";
      out += kHex[byte >> 4];
      out += kHex[byte & 0xF];
    } else {
      out += c;
    }
  }
  return out + "'";
}

}  // namespace dotresize
