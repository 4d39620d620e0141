#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/errors.h"
#include "server/access/call_gate.h"
#include "server/access/certificates.h"
#include "server/access/endpoint.h"

namespace httplib {
class Server;
struct Request;
struct Response;
}  // namespace httplib

namespace dotresize {

class HttpPort;

/// Sender of the request, and the token of its header "Authorization: Bearer TOKEN".
CallOrigin origin_of(const httplib::Request& request);

/// HTTP status for a gRPC status code.
int http_status(grpc::StatusCode code);

/// Sets the HTTP status of a refused call and the headers that belong to it. Returns the status.
int refuse(const grpc::Status& status, httplib::Response& response);

/// Health of one part of the server.
struct HealthCheck {
  std::string part;
  Verdict verdict;
  bool needed = true;  ///< the server cannot serve without it
};

/// Callbacks of the server. `health` and `metrics` are called for each request, by threads of the
/// server; `add_pages` is called once, by its constructor.
struct HttpContent {
  std::function<std::vector<HealthCheck>()> health;
  std::function<std::string()> metrics;
  std::function<void(httplib::Server&)> add_pages;
};

/// HTTP server, or HTTPS if there is a certificate, for monitoring:
///   /healthz  200 as long as the process answers
///   /readyz   200, or 503 if a needed part does not work; one line per part
///   /metrics  for Prometheus; needs the role of a reader, checked by `gate`, and a certificate of
///             the authority of clients, if that is all by which the API knows its callers
/// and the pages of `add_pages`.
class HttpServer {
 public:
  /// Listens until destruction. `certificates` and `gate` outlive the server. Throws
  /// std::runtime_error if the address is not available.
  HttpServer(const Endpoint& endpoint, const Certificates& certificates, CallGate& gate,
             HttpContent content);
  ~HttpServer();

  /// "http://HOST:PORT" with the actual port.
  const std::string& url() const { return url_; }

 private:
  class Library;

  CallGate& gate_;
  const HttpContent content_;
  const bool by_certificate_;  ///< the API knows its callers by certificates alone
  std::unique_ptr<Library> library_;
  std::string url_;
  std::unique_ptr<HttpPort> port_;  ///< last member: it uses all the others
};

}  // namespace dotresize
