#include "base/text/printable.h"

#include <algorithm>
#include <cstdint>

#include "base/text/encodings.h"

namespace dotresize {
namespace {

struct Character {
  size_t length = 0;  ///< bytes; 0: malformed
  uint32_t code = 0;
};

/// Returns the first UTF-8 character of `text`.
Character first_character(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
  size_t length = 0;
  uint32_t code = 0;
  if (byte(0) < 0x80) return {1, byte(0)};
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
  if (length == 0 || text.size() < length) return {};
  for (size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0u) != 0x80u) return {};
    code = code << 6 | (byte(i) & 0x3Fu);
  }
  const bool overlong = (length == 3 && code < 0x800) || (length == 4 && code < 0x10000);
  const bool surrogate = code >= 0xD800 && code < 0xE000;
  if (overlong || surrogate || code > 0x10FFFF) return {};
  return {length, code};
}

/// True for C0 and C1, which control a terminal, and for characters that change the direction or
/// the lines of a text, so that a reader would see other words.
bool is_control(uint32_t code) {
  const auto within = [code](uint32_t first, uint32_t last) {
    return code >= first && code <= last;
  };
  return code < 0x20 || within(0x7F, 0x9F) || code == 0x061C || within(0x200E, 0x200F) ||
         within(0x2028, 0x202E) || within(0x2066, 0x2069);
}

/// Copies valid characters. `replace(bytes)` returns the replacement of a control character or an
/// invalid byte. Stops before the first piece that would exceed `max_bytes`, and leaves the rest in
/// `text`.
template <class Replace>
std::string replace_unprintable(std::string_view& text, size_t max_bytes, Replace&& replace) {
  std::string result;
  while (!text.empty()) {
    const Character character = first_character(text);
    const std::string_view bytes = text.substr(0, std::max<size_t>(character.length, 1));
    const bool allowed = character.length > 0 && !is_control(character.code);
    const std::string piece = allowed ? std::string(bytes) : replace(bytes);
    if (result.size() + piece.size() > max_bytes) break;
    result += piece;
    text.remove_prefix(bytes.size());
  }
  return result;
}

}  // namespace

std::string printable(std::string_view text, size_t max_bytes) {
  return replace_unprintable(text, max_bytes, [](std::string_view bytes) -> std::string {
    return bytes == "\n" || bytes == "\r" || bytes == "\t" ? " " : "?";
  });
}

std::string printable_lines(std::string_view text) {
  return replace_unprintable(text, std::string::npos, [](std::string_view bytes) -> std::string {
    return bytes == "\n" || bytes == "\t" ? std::string(bytes) : "?";
  });
}

size_t begun_character(std::string_view text) {
  for (size_t count = 1; count <= std::min<size_t>(3, text.size()); ++count) {
    const auto byte = static_cast<uint8_t>(text[text.size() - count]);
    if ((byte & 0xC0u) == 0x80u) continue;  // not the first byte of its character
    const size_t length = byte >= 0xF0 ? 4 : byte >= 0xE0 ? 3 : byte >= 0xC0 ? 2 : 1;
    return length > count ? count : 0;
  }
  return 0;
}

bool is_printable(std::string_view text) {
  while (!text.empty()) {
    const Character character = first_character(text);
    if (character.length == 0 || is_control(character.code)) return false;
    text.remove_prefix(character.length);
  }
  return true;
}

bool is_plain_word(std::string_view text, std::string_view also) {
  return std::ranges::all_of(text, [also](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           also.find(c) != std::string_view::npos;
  });
}

std::string whole_lines(std::string tail, size_t max_bytes) {
  if (tail.size() >= max_bytes) tail.erase(0, tail.find('\n') + 1);
  return tail;
}

std::string in_quotes(std::string_view value) {
  constexpr size_t kMaxBytes = 100;
  const std::string start = replace_unprintable(value, kMaxBytes, [](std::string_view bytes) {
    std::string escapes;
    for (size_t i = 0; i < bytes.size(); ++i) escapes += "\\x" + hex_digits(bytes.substr(i, 1));
    return escapes;
  });
  return "'" + start + (value.empty() ? "'" : "...'");
}

}  // namespace dotresize
