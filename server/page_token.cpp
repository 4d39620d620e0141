#include "server/page_token.h"

#include <charconv>
#include <system_error>

#include "server/api_error.h"

namespace dotresize {
namespace {

/// FNV-1a over the filter: enough to catch a token that is used with another filter.
uint64_t fingerprint(const v1::ListJobsRequest::Filter& filter) {
  uint64_t hash = 14695981039346656037u;
  for (const char c : filter.SerializeAsString()) {
    hash = (hash ^ static_cast<uint8_t>(c)) * 1099511628211u;
  }
  return hash;
}

template <class Integer>
bool read_hex(const std::string& text, Integer& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, 16);
  return error == std::errc() && end == text.data() + text.size();
}

std::string hex(uint64_t value) {
  char digits[16];
  const auto [end, error] = std::to_chars(digits, digits + sizeof digits, value, 16);
  return std::string(digits, end);
}

}  // namespace

std::string make_page_token(int64_t next_before, const v1::ListJobsRequest::Filter& filter) {
  return hex(static_cast<uint64_t>(next_before)) + "." + hex(fingerprint(filter));
}

int64_t read_page_token(const std::string& token, const v1::ListJobsRequest::Filter& filter) {
  if (token.empty()) return 0;
  const size_t dot = token.find('.');
  int64_t position = 0;
  uint64_t print = 0;
  const bool well_formed = dot != std::string::npos && read_hex(token.substr(0, dot), position) &&
                           read_hex(token.substr(dot + 1), print) && position > 0;
  if (!well_formed || print != fingerprint(filter)) {
    throw invalid_argument("page_token",
                           "is not the next_page_token of an answer to the same filter");
  }
  return position;
}

}  // namespace dotresize
