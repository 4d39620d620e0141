#include "base/text/traceparent.h"

#include <algorithm>

namespace dotresize {
namespace {

constexpr std::string_view kFormatVersion = "00-";
constexpr size_t kTraceDigits = 32;
constexpr size_t kSpanDigits = 16;
constexpr size_t kFlagDigits = 2;
constexpr size_t kSpan = kFormatVersion.size() + kTraceDigits + 1;
constexpr size_t kFlags = kSpan + kSpanDigits + 1;

bool is_hex(std::string_view text) {
  return std::ranges::all_of(
      text, [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

/// True for hexadecimal digits that are not all zero.
bool is_id(std::string_view text) {
  return is_hex(text) && text.find_first_not_of('0') != std::string_view::npos;
}

}  // namespace

bool is_traceparent(std::string_view text) {
  return text.size() == kFlags + kFlagDigits && text.starts_with(kFormatVersion) &&
         text[kSpan - 1] == '-' && text[kFlags - 1] == '-' &&
         is_id(text.substr(kFormatVersion.size(), kTraceDigits)) &&
         is_id(text.substr(kSpan, kSpanDigits)) && is_hex(text.substr(kFlags));
}

}  // namespace dotresize
