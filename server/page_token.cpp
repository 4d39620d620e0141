#include "server/page_token.h"

#include <fmt/format.h>

#include "base/parse_number.h"
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

}  // namespace

std::string make_page_token(int64_t next_before, const v1::ListJobsRequest::Filter& filter) {
  return fmt::format("{:x}.{:x}", next_before, fingerprint(filter));
}

int64_t read_page_token(const std::string& token, const v1::ListJobsRequest::Filter& filter) {
  if (token.empty()) return 0;
  const size_t dot = token.find('.');
  const auto position = parse_number<int64_t>(token.substr(0, dot), 16);
  const auto print =
      dot == std::string::npos ? std::nullopt : parse_number<uint64_t>(token.substr(dot + 1), 16);
  if (position.value_or(0) <= 0 || print != fingerprint(filter)) {
    throw invalid_argument("page_token",
                           "is not the next_page_token of an answer to the same filter");
  }
  return *position;
}

}  // namespace dotresize
