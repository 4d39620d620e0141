#pragma once

#include <optional>
#include <string>

namespace dotresize {

struct Endpoint {
  std::string host;
  int port = 0;
};

/// Returns why the text is not HOST:PORT with a port from 0 to 65535; empty if it is.
std::string endpoint_fault(const std::string& text);

/// Splits a text for which endpoint_fault() is empty.
Endpoint split_endpoint(const std::string& text);

/// Host for a client's socket: an IPv6 address without its brackets.
std::string host_of(const Endpoint& endpoint);

bool is_loopback(const std::string& host);

/// Target of an HTTP request.
struct HttpUrl {
  bool tls = true;
  Endpoint endpoint;  ///< lower-case host, IPv6 in brackets; default port by scheme
  std::string path;   ///< empty, or begins with '/'
  std::string query;  ///< query without '?'

  /// "https://HOST:PORT"
  std::string origin() const;
};

/// Parses an https or http URL. Accepts only spellings that all programs read alike: no user, no
/// fragment, no escape in the path, no step "." or "..", at most 2048 characters. Returns nullopt
/// for any other text.
std::optional<HttpUrl> parse_http_url(const std::string& text);

}  // namespace dotresize
