#include "server/http/http_origin.h"

#include <httplib.h>

#include <string_view>

namespace dotresize {
namespace {

/// Peer as gRPC writes it: "ipv4:127.0.0.1:4711", "ipv6:%5B::1%5D:4711".
std::string peer_of(const httplib::Request& request) {
  constexpr std::string_view kMapped = "::ffff:";  // IPv4 client at an IPv6 socket
  std::string address = request.remote_addr;
  if (address.starts_with(kMapped)) address.erase(0, kMapped.size());
  const bool v6 = address.find(':') != std::string::npos;
  return (v6 ? "ipv6:%5B" + address + "%5D" : "ipv4:" + address) + ":" +
         std::to_string(request.remote_port);
}

std::string bearer_token(const httplib::Request& request) {
  if (request.get_header_value_count("Authorization") != 1) return "";
  return token_of_header(request.get_header_value("Authorization"));
}

}  // namespace

CallOrigin origin_of(const httplib::Request& request) {
  return {.peer = peer_of(request), .token = bearer_token(request)};
}

int http_status(grpc::StatusCode code) {
  switch (code) {
    case grpc::StatusCode::OK:
      return 200;
    case grpc::StatusCode::INVALID_ARGUMENT:
      return 400;
    case grpc::StatusCode::UNAUTHENTICATED:
      return 401;
    case grpc::StatusCode::PERMISSION_DENIED:
      return 403;
    case grpc::StatusCode::NOT_FOUND:
      return 404;
    case grpc::StatusCode::ALREADY_EXISTS:
    case grpc::StatusCode::FAILED_PRECONDITION:
      return 409;
    case grpc::StatusCode::RESOURCE_EXHAUSTED:
      return 429;
    case grpc::StatusCode::UNAVAILABLE:
      return 503;
    default:
      return 500;
  }
}

int refuse(const grpc::Status& status, httplib::Response& response) {
  response.status = http_status(status.error_code());
  if (response.status == 401) response.set_header("WWW-Authenticate", "Bearer");
  if (response.status == 429 || response.status == 503) response.set_header("Retry-After", "2");
  return response.status;
}

}  // namespace dotresize
