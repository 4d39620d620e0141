#pragma once

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

bool is_loopback(const std::string& host);

}  // namespace dotresize
