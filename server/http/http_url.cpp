#include "server/http/http_url.h"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <string_view>

#include "base/text/printable.h"

namespace dotresize {
namespace {

constexpr size_t kMaxUrl = 2048;
constexpr std::string_view kHttps = "https://";
constexpr std::string_view kHttp = "http://";

bool is_host(const Endpoint& endpoint) {
  const std::string host = host_of(endpoint);
  const bool bracketed = host.size() < endpoint.host.size();
  return !host.empty() && is_plain_word(host, bracketed ? "-.:" : "-.");
}

bool is_path(const std::string& path) {
  if (!is_plain_word(path, "/-_.:~+=,")) return false;
  const std::filesystem::path steps = path;
  return std::ranges::none_of(steps, [](const auto& step) { return step == "." || step == ".."; });
}

std::string lower_case(std::string text) {
  std::ranges::transform(text, text.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

}  // namespace

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
  std::string authority = lower_case(rest.substr(0, slash));
  if (!endpoint_fault(authority).empty()) authority += url.tls ? ":443" : ":80";
  if (!endpoint_fault(authority).empty()) return std::nullopt;
  url.endpoint = split_endpoint(authority);
  const bool sound = is_host(url.endpoint) && url.endpoint.port > 0 && is_path(url.path) &&
                     is_plain_word(url.query, "-_.~:/?+=,&%@;!*");
  return sound ? std::optional(url) : std::nullopt;
}

}  // namespace dotresize
