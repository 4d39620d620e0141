#pragma once

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "server/access/call_gate.h"
#include "server/access/certificates.h"
#include "server/access/endpoint.h"

namespace httplib {
class Server;
}

namespace dotresize {

/// Whether a part of the server works.
struct HealthCheck {
  std::string part;
  std::string fault;   ///< why it does not; empty if it does
  bool needed = true;  ///< without it the server serves nobody
};

/// What /readyz and /metrics say, asked for each time by threads of the object; and what else there
/// is.
struct HttpContent {
  std::function<std::vector<HealthCheck>()> health;
  std::function<std::string()> metrics;
  std::function<void(httplib::Server&)> add_pages;
};

/// Plain HTTP, or HTTPS if there is a certificate, for those who watch the server:
///   /healthz  200 as long as the process answers
///   /readyz   200, or 503 if a part does not work; a line for each
///   /metrics  for Prometheus; a call that passes through `gate`, for readers
/// and the pages of `add_pages`.
class HttpServer {
 public:
  /// Listens until the end of the object, which `certificates` and `gate` outlive. Throws
  /// std::runtime_error if the address is not available.
  HttpServer(const Endpoint& endpoint, const Certificates& certificates, CallGate& gate,
             HttpContent content);
  ~HttpServer();

  /// "http://HOST:PORT" with the actual port.
  const std::string& url() const { return url_; }

 private:
  void add_pages();

  CallGate& gate_;
  const HttpContent content_;
  std::unique_ptr<httplib::Server> server_;
  std::string url_;
  std::thread thread_;
};

}  // namespace dotresize
