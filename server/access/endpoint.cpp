#include "server/access/endpoint.h"

#include <arpa/inet.h>

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <filesystem>
#include <string_view>

#include "base/text/encodings.h"
#include "base/text/printable.h"

namespace dotresize {
namespace {

constexpr size_t kMaxUrl = 2048;
constexpr std::string_view kHttps = "https://";
constexpr std::string_view kHttp = "http://";

}  // namespace

std::string endpoint_fault(const std::string& text) {
  const size_t colon = text.rfind(':');
  const bool well_formed = colon != std::string::npos && colon > 0 &&
                           parse_number<uint16_t>(std::string_view(text).substr(colon + 1));
  return well_formed ? "" : "'" + text + "' is not HOST:PORT with a port of 0 to 65535";
}

Endpoint split_endpoint(const std::string& text) {
  const size_t colon = text.rfind(':');
  return {text.substr(0, colon),
          parse_number<uint16_t>(std::string_view(text).substr(colon + 1)).value()};
}

bool is_loopback(const std::string& host) {
  in_addr address{};
  const bool is_ipv4 = ::inet_pton(AF_INET, host.c_str(), &address) == 1;
  return host == "localhost" || host == "[::1]" || (is_ipv4 && host.starts_with("127."));
}

std::string HttpUrl::origin() const {
  return std::string(tls ? kHttps : kHttp) + endpoint.host + ":" + std::to_string(endpoint.port);
}

std::string host_of(const Endpoint& endpoint) {
  const std::string& host = endpoint.host;
  const bool bracketed = host.starts_with('[') && host.ends_with(']');
  return bracketed ? host.substr(1, host.size() - 2) : host;
}

std::optional<HttpUrl> parse_http_url(const std::string& text) {
  HttpUrl url;
  url.tls = text.starts_with(kHttps);
  if (text.size() > kMaxUrl || (!url.tls && !text.starts_with(kHttp))) return std::nullopt;
  std::string rest = text.substr(url.tls ? kHttps.size() : kHttp.size());
  if (const size_t mark = rest.find('?'); mark != std::string::npos) {
    url.query = rest.substr(mark + 1);
    rest.resize(mark);
  }
  const size_t slash = std::min(rest.find('/'), rest.size());
  url.path = rest.substr(slash);
  std::string authority = rest.substr(0, slash);
  std::ranges::transform(authority, authority.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  if (!endpoint_fault(authority).empty()) authority += url.tls ? ":443" : ":80";
  if (!endpoint_fault(authority).empty()) return std::nullopt;
  url.endpoint = split_endpoint(authority);
  const std::string host = host_of(url.endpoint);
  const bool bracketed = host.size() < url.endpoint.host.size();
  if (host.empty() || !is_plain_word(host, bracketed ? "-.:" : "-.") || url.endpoint.port == 0) {
    return std::nullopt;
  }
  const std::filesystem::path steps = url.path;
  const bool sound =
      is_plain_word(url.path, "/-_.:~+=,") &&
      std::ranges::none_of(steps, [](const auto& step) { return step == "." || step == ".."; }) &&
      is_plain_word(url.query, "-_.~:/?+=,&%@;!*");
  return sound ? std::optional(url) : std::nullopt;
}

}  // namespace dotresize
