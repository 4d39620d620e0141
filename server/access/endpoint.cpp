#include "server/access/endpoint.h"

#include <arpa/inet.h>

#include <cstdint>

#include "base/text/parse_number.h"

namespace dotresize {

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

}  // namespace dotresize
