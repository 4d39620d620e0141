#pragma once

#include <string>

namespace dotresize {

/// HOST:PORT.
struct Endpoint {
  std::string host;
  int port = 0;
};

/// Why the text is not HOST:PORT with a port of 0 to 65535; empty if it is.
std::string endpoint_fault(const std::string& text);

/// Of a text without fault.
Endpoint split_endpoint(const std::string& text);

bool is_loopback(const std::string& host);

}  // namespace dotresize
