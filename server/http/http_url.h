#pragma once

#include <optional>
#include <string>

#include "server/access/endpoint.h"

namespace dotresize {

/// Where a request over HTTP goes.
struct HttpUrl {
  bool tls = true;
  Endpoint
      endpoint;      ///< host in lower case, that of IPv6 in brackets; the scheme's port by default
  std::string path;  ///< empty, or it begins with '/'
  std::string query;  ///< without its '?'

  /// "https://HOST:PORT"
  std::string origin() const;
};

/// A URL of https, or http. Only what is spelled so that all programs read it alike: no user, no
/// fragment, no escape in the path, no step "." or "..", at most 2048 characters. Nothing for any
/// other text.
std::optional<HttpUrl> parse_http_url(const std::string& text);

/// As a client's socket wants it: an address of IPv6 without its brackets.
std::string host_of(const Endpoint& endpoint);

}  // namespace dotresize
