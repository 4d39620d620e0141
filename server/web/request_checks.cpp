#include "server/web/request_checks.h"

#include <arpa/inet.h>
#include <strings.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "base/text/printable.h"

namespace dotresize {
namespace {

/// Removes the port: "HOST" from "HOST:PORT", "::1" from "[::1]:80".
std::string without_port(const std::string& host) {
  if (host.starts_with('[')) return host.substr(1, host.find(']') - 1);
  return host.substr(0, host.find(':'));
}

bool is_address(const std::string& name) {
  std::array<unsigned char, sizeof(in6_addr)> address{};
  return ::inet_pton(AF_INET, name.c_str(), address.data()) == 1 ||
         ::inet_pton(AF_INET6, name.c_str(), address.data()) == 1;
}

bool same_name(const std::string& a, const std::string& b) {
  return ::strcasecmp(a.c_str(), b.c_str()) == 0;
}

}  // namespace

bool names_this_machine(const std::string& host, const std::vector<std::string>& names) {
  const std::string name = without_port(host);
  return is_address(name) || same_name(name, "localhost") ||
         std::ranges::any_of(names, [&](const auto& own) { return same_name(name, own); });
}

bool is_own_origin(const std::string& origin, const std::string& host) {
  if (origin.empty()) return true;
  constexpr std::string_view kSchemeEnd = "://";
  const size_t end = origin.find(kSchemeEnd);
  return end != std::string::npos && !host.empty() &&
         same_name(origin.substr(end + kSchemeEnd.size()), host);
}

std::string cookie_in(const std::string& header, const std::string& name) {
  const std::string wanted = name + "=";
  for (size_t begin = 0; begin < header.size();) {
    const size_t end = std::min(header.find(';', begin), header.size());
    const std::string_view pair = std::string_view(header).substr(begin, end - begin);
    if (pair.starts_with(wanted)) return std::string(pair.substr(wanted.size()));
    begin = std::min(header.find_first_not_of("; ", end), header.size());
  }
  return "";
}

bool is_page(const std::string& path) {
  constexpr std::string_view kJobs = "/jobs";
  if (path == "/" || path == kJobs) return true;
  const std::string folder = std::string(kJobs) + "/";
  return path.starts_with(folder) && path.size() > folder.size() &&
         is_plain_word(std::string_view(path).substr(folder.size()), "-");
}

}  // namespace dotresize
